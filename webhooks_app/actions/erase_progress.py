"""How far an erasure is, and what it has still to come back to; kept with its job from batch to batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from .. import conf
from ..models import Job

LABELS: Final = {"tenant_id": 128, "identity_id": 128, "subject": 256}
# As long as the column that holds a job's error.
MAX_ERROR: Final = 200
UNREACHABLE: Final = "outbox_unreachable"
_FIX: Final = "make them answer under these names in DATABASES, and erase again"


@dataclass(slots=True)
class Progress:
    """The state of an erasure between two batches.

    `before`: later events are not meant. `outboxes` are still to be emptied: by alias the key that is reached
    and the last one, None as long as nobody has asked. `unreachable`: by alias why. `last`: key of the last
    event to look at, None until the outboxes are empty. `busy`: deliveries that were being sent.
    """

    labels: Mapping[str, str]
    before: datetime
    outboxes: dict[str, tuple[int, int | None]]
    unreachable: dict[str, str]
    last: int | None
    busy: list[int]

    @classmethod
    def of(cls, job: Job) -> "Progress":
        """Return where the job is."""
        params: Mapping[str, Any] = job.params
        before = params.get("before")
        return cls(
            labels={name: params[name] for name in LABELS if name in params},
            before=job.created_at if before is None else datetime.fromisoformat(before),
            outboxes={alias: (reached, last) for alias, (reached, last) in _outboxes(params).items()},
            unreachable=dict(params.get("unreachable", {})),
            last=params.get("last"),
            busy=list(params.get("busy", [])),
        )

    def params(self) -> dict[str, Any]:
        """Return it as the job keeps it."""
        return {
            **self.labels,
            "before": self.before.isoformat(),
            "outboxes": self.outboxes,
            "unreachable": self.unreachable,
            "last": self.last,
            "busy": self.busy,
        }

    def error(self) -> str:
        """Return with what the job fails at its end, "" if all that it looked for is gone."""
        if not self.unreachable:
            return ""
        names = ", ".join(f"{alias} ({why})" for alias, why in sorted(self.unreachable.items()))
        most = MAX_ERROR - len(f"{UNREACHABLE}: ; {_FIX}")
        return f"{UNREACHABLE}: {names if len(names) <= most else names[: most - 1] + '…'}; {_FIX}"


def _outboxes(params: Mapping[str, Any]) -> Mapping[str, tuple[int, int | None]]:
    known: Mapping[str, tuple[int, int | None]] | None = params.get("outboxes")
    return dict.fromkeys(conf.current().OUTBOX_DATABASES, (0, None)) if known is None else known
