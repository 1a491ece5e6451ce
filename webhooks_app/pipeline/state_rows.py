"""The state rows as a record sees them: locked and read together, written back as one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from ..core.breaker import BreakerFacts
from ..core.health import HealthFacts
from . import clock
from .dialect import Dialect
from .judge import Judged
from .transactions import Tx
from .work import News


@dataclass(slots=True)
class StateRow:
    """A locked EndpointState, changed in memory. The first fields are its columns, in the order of _TYPES.

    `news` are the changes that people hear of, each with the outcome that caused it.
    """

    endpoint_id: int
    enabled: bool
    disabled_reason: str | None
    disabled_at: datetime | None
    hold_until: datetime | None
    window: int
    starved: bool
    consecutive_failures: int
    first_failure_at: datetime | None
    last_failure_at: datetime | None
    failing_from: datetime | None
    warnings: int
    health_warning: str
    last_error: str
    breaker: str
    breaker_at: datetime | None
    breaker_error: str
    breaker_successes: int
    probe_at: datetime | None
    probe_token: UUID | None
    probe_until: datetime | None
    generation: int
    woken_until: datetime | None
    latency_ms: int | None
    last_success_at: datetime | None
    news: list[tuple[News, Judged]] = field(default_factory=list)
    changed: bool = False

    def set(self, **values: Any) -> None:
        """Set columns; only a row with a difference is written back."""
        for name, value in values.items():
            if getattr(self, name) != value:
                setattr(self, name, value)
                self.changed = True

    @property
    def health(self) -> HealthFacts:
        """The facts that disabling is decided by."""
        return HealthFacts(
            self.consecutive_failures, self.first_failure_at, self.last_failure_at, self.failing_from
        )

    @property
    def circuit(self) -> BreakerFacts:
        """The facts that the breaker is moved by."""
        return BreakerFacts(
            self.breaker, self.breaker_at, self.breaker_error, self.breaker_successes, self.probe_at
        )


# The columns that a record writes back; the last two of StateRow belong to the counters.
_TYPES = {
    "endpoint_id": "bigint",
    "enabled": "boolean",
    "disabled_reason": "text",
    "disabled_at": "timestamptz",
    "hold_until": "timestamptz",
    "window": "int",
    "starved": "boolean",
    "consecutive_failures": "int",
    "first_failure_at": "timestamptz",
    "last_failure_at": "timestamptz",
    "failing_from": "timestamptz",
    "warnings": "int",
    "health_warning": "text",
    "last_error": "text",
    "breaker": "text",
    "breaker_at": "timestamptz",
    "breaker_error": "text",
    "breaker_successes": "int",
    "probe_at": "timestamptz",
    "probe_token": "uuid",
    "probe_until": "timestamptz",
    "generation": "int",
    "woken_until": "timestamptz",
}
_ALL = {**_TYPES, "latency_ms": "int", "last_success_at": "timestamptz"}
_READ = ", ".join(f'"{name}"' for name in _ALL)
_SET = ", ".join(f'"{name}" = v."{name}"' for name in _TYPES if name != "endpoint_id")
_QUOTED = {f'"{name}"': kind for name, kind in _TYPES.items()}

if tuple(_ALL) != tuple(each.name for each in fields(StateRow))[: len(_ALL)]:  # pragma: no cover
    raise RuntimeError("StateRow begins with the columns that are read, in their order")


def lock_states(tx: Tx, endpoint_ids: Sequence[int]) -> tuple[dict[int, StateRow], datetime]:
    """Lock and read the state rows in id order; also return the current time."""
    condition, values = tx.dialect.among("endpoint_id", endpoint_ids)
    tx.execute(
        f"""SELECT s.*, {tx.dialect.now_sql} FROM (SELECT {_READ} FROM webhooks_app_endpointstate
        WHERE {condition} ORDER BY endpoint_id {tx.lock}) AS s""",
        values,
    )
    rows = tx.rows()
    read = _reader(tx.dialect)
    states = {row[0]: StateRow(*read(row[: len(_ALL)])) for row in rows}
    return states, clock.read(rows[-1][len(_ALL)] if rows else None)


def _reader(dialect: Dialect) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """Return the function that makes column values of a row; PostgreSQL's are right as they are."""
    if dialect.native:
        return tuple
    known: dict[str, Callable[[Any], Any]] = {"boolean": bool, "timestamptz": dialect.moment}
    readers = [known.get(kind) for kind in _ALL.values()]

    def read(row: tuple[Any, ...]) -> list[Any]:
        return [value if make is None else make(value) for make, value in zip(readers, row, strict=True)]

    return read


def save_states(tx: Tx, changed: Sequence[StateRow]) -> None:
    """Write the rows back; they are locked, so nobody has changed them meanwhile."""
    if changed:
        item, values = tx.dialect.values(_QUOTED, [_row(state, tx.dialect) for state in changed])
        tx.execute(
            f"""UPDATE webhooks_app_endpointstate SET {_SET} FROM {item}
            WHERE webhooks_app_endpointstate.endpoint_id = v.endpoint_id""",
            values,
        )


def _row(state: StateRow, dialect: Dialect) -> tuple[Any, ...]:
    return tuple(
        dialect.time(value) if kind == "timestamptz" else _uuid(dialect, value) if kind == "uuid" else value
        for kind, value in ((kind, getattr(state, name)) for name, kind in _TYPES.items())
    )


def _uuid(dialect: Dialect, value: Any) -> Any:
    return dialect.uuid(value) if isinstance(value, UUID) else value


def note_secret_use(tx: Tx, endpoint_ids: Sequence[int], now: datetime) -> None:
    """Note that the signing secrets of these endpoints still convince their receivers."""
    if not endpoint_ids:
        return
    condition, ids = tx.dialect.among("endpoint_id", endpoint_ids)
    moment = tx.dialect.time(now)
    tx.execute(
        f"""UPDATE webhooks_app_endpointsecret SET last_used_at = %s
        WHERE {condition} AND (expires_at IS NULL OR expires_at > %s)""",
        [moment, *ids, moment],
    )


def changed_rows(states: Mapping[int, StateRow]) -> list[StateRow]:
    """Return the rows that differ from what was read."""
    return [state for state in states.values() if state.changed]
