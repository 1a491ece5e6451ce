"""What a job consists of: batches that are looked for without locks and written in a short transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from ..models import Job
from ..pipeline.transactions import Tx
from ..pipeline.work import Ended

BATCH = 500


@dataclass(frozen=True, slots=True)
class Portion:
    """The next batch of a job: its rows, and the key up to which the job is done with it.

    `skipped` were looked at and left out. `is_last`: nothing is left after it.
    """

    rows: Sequence[Any]
    reached: int
    is_last: bool
    skipped: int = 0


@dataclass(slots=True)
class Written:
    """What a batch did: rows done and skipped, endpoints to wake, deliveries that ended.

    `stop`: the error with which the job fails here. `rest`: seconds after which it goes on, even though the
    batch was the last; None when there is nothing to wait for. `is_over`: the job ended with this
    batch. `at`: when.
    """

    done: int = 0
    skipped: int = 0
    wake: set[int] = field(default_factory=set)
    stop: str = ""
    rest: float | None = None
    ended: Sequence[Ended] = ()
    is_over: bool = False
    at: datetime | None = None


class Steps(Protocol):
    """How the jobs of one kind are done."""

    def look(self, alias: str, job: Job) -> Portion:
        """Find the next batch; takes no locks, and may find less than there is."""

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Do the batch, with raw SQL; the transaction may be repeated."""


def moment_of(params: Mapping[str, Any], name: str) -> datetime | None:
    """Return a moment that was stored with a job, if it was."""
    return None if params[name] is None else datetime.fromisoformat(params[name])
