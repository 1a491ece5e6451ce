"""The state rows as a record sees them: window, failures in a row, holds, automatic disabling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..core.health import HealthFacts, next_window, should_disable, worst
from . import clock
from .dialect import Dialect
from .gates import Gate
from .judge import Judged
from .transactions import Tx

# Success is noted at most once a minute: a healthy endpoint's row is not rewritten with every batch.
SUCCESS_NEWS = timedelta(seconds=60)


@dataclass(slots=True)
class StateRow:
    """A locked EndpointState, changed in memory and written back as one.

    `disabled_by` is the outcome that disables the endpoint now.
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
    last_success_at: datetime | None
    generation: int
    woken_until: datetime | None
    disabled_by: Judged | None = None
    changed: bool = False
    succeeded: bool = False


_COLUMNS = """endpoint_id, enabled, disabled_reason, disabled_at, hold_until, "window", starved,
consecutive_failures, first_failure_at, last_failure_at, last_success_at, generation, woken_until"""
_TIMES = (3, 4, 8, 9, 10, 12)


def lock_states(tx: Tx, endpoint_ids: Sequence[int]) -> tuple[dict[int, StateRow], datetime]:
    """Lock and read the state rows in id order; also return the current time."""
    condition, values = tx.dialect.among("endpoint_id", endpoint_ids)
    tx.execute(
        f"""SELECT s.*, {tx.dialect.now_sql} FROM (SELECT {_COLUMNS} FROM webhooks_app_endpointstate
        WHERE {condition} ORDER BY endpoint_id {tx.lock}) AS s""",
        values,
    )
    rows = tx.rows()
    states = {}
    for row in rows:
        columns: list[Any] = [
            tx.dialect.moment(value) if place in _TIMES else value for place, value in enumerate(row[:13])
        ]
        columns[1], columns[6] = bool(columns[1]), bool(columns[6])
        states[row[0]] = StateRow(*columns)
    return states, clock.read(rows[-1][13] if rows else None)


def apply_outcomes(
    states: Mapping[int, StateRow], judged: Sequence[Judged], gates: Mapping[int, Gate], now: datetime
) -> None:
    """Apply the outcomes, in the order they came in, to the rows."""
    by_endpoint: dict[int, list[Judged]] = {}
    for each in sorted(judged, key=lambda one: one.done.finished_at):
        by_endpoint.setdefault(each.job.endpoint_id, []).append(each)
    for endpoint_id, outcomes in by_endpoint.items():
        state = states.get(endpoint_id)
        if state is not None:
            _apply(state, outcomes, gates[endpoint_id], now)


def _apply(state: StateRow, outcomes: Sequence[Judged], gate: Gate, now: datetime) -> None:
    # Results of an earlier life (before a disable, enable or change of URL) say nothing about this one.
    current = [each for each in outcomes if each.job.generation == state.generation]
    if current:
        _move_window(state, current, gate)
        _hold(state, current)
        _move_health(state, current, now)
        _disable(state, current, gate, now)


def _move_window(state: StateRow, outcomes: Sequence[Judged], gate: Gate) -> None:
    window = next_window(state.window, worst(each.pace for each in outcomes), gate.max_in_flight)
    if window != state.window:
        state.window, state.changed = window, True


def _hold(state: StateRow, outcomes: Sequence[Judged]) -> None:
    for each in outcomes:
        until = each.outcome.hold_until
        if until is not None and (state.hold_until is None or state.hold_until < until):
            state.hold_until, state.changed = until, True


def _move_health(state: StateRow, outcomes: Sequence[Judged], now: datetime) -> None:
    facts = HealthFacts(state.consecutive_failures, state.first_failure_at)
    before = facts
    for each in outcomes:
        facts = facts.after(each.outcome.health, each.done.finished_at, None)
        state.succeeded |= each.outcome.health == "success"
        if each.outcome.health == "failure":
            state.last_failure_at, state.changed = now, True
    if facts != before:
        state.consecutive_failures, state.first_failure_at = facts.consecutive, facts.first_failure_at
        state.changed = True
    stale = state.last_success_at is None or state.last_success_at < now - SUCCESS_NEWS
    if state.succeeded and stale:
        state.last_success_at, state.changed = now, True


def _disable(state: StateRow, outcomes: Sequence[Judged], gate: Gate, now: datetime) -> None:
    if not state.enabled:
        return
    asked = next((each for each in outcomes if each.outcome.disable), None)
    facts = HealthFacts(state.consecutive_failures, state.first_failure_at)
    failing = should_disable(gate.policy, facts, now)
    reason = asked.outcome.disable if asked else ("failing" if failing else None)
    if reason is not None:
        state.enabled, state.disabled_reason, state.disabled_at = False, reason, now
        state.generation += 1
        state.disabled_by, state.changed = asked or outcomes[-1], True


_TYPES = {
    "key": "bigint",
    "enabled": "boolean",
    "disabled_reason": "text",
    "disabled_at": "timestamptz",
    "hold_until": "timestamptz",
    "win": "int",
    "starved": "boolean",
    "consecutive_failures": "int",
    "first_failure_at": "timestamptz",
    "last_failure_at": "timestamptz",
    "last_success_at": "timestamptz",
    "generation": "int",
    "woken_until": "timestamptz",
}
_SAVE = """UPDATE webhooks_app_endpointstate SET enabled = v.enabled, disabled_reason = v.disabled_reason,
disabled_at = v.disabled_at, hold_until = v.hold_until, "window" = v.win, starved = v.starved,
consecutive_failures = v.consecutive_failures, first_failure_at = v.first_failure_at,
last_failure_at = v.last_failure_at, last_success_at = v.last_success_at, generation = v.generation,
woken_until = v.woken_until FROM {} WHERE endpoint_id = v.key"""


def save_states(tx: Tx, changed: Sequence[StateRow], now: datetime) -> None:
    """Write the rows back; they are locked, so nobody has changed them meanwhile."""
    if not changed:
        return
    item, values = tx.dialect.values(_TYPES, [_row(state, tx.dialect) for state in changed])
    tx.execute(_SAVE.format(item), values)
    fresh = [state.endpoint_id for state in changed if state.succeeded and state.last_success_at == now]
    if fresh:
        _note_secret_use(tx, fresh, now)


def _row(state: StateRow, dialect: Dialect) -> tuple[Any, ...]:
    return (
        state.endpoint_id,
        state.enabled,
        state.disabled_reason,
        dialect.time(state.disabled_at),
        dialect.time(state.hold_until),
        state.window,
        state.starved,
        state.consecutive_failures,
        dialect.time(state.first_failure_at),
        dialect.time(state.last_failure_at),
        dialect.time(state.last_success_at),
        state.generation,
        dialect.time(state.woken_until),
    )


def _note_secret_use(tx: Tx, endpoint_ids: Sequence[int], now: datetime) -> None:
    condition, ids = tx.dialect.among("endpoint_id", endpoint_ids)
    moment = tx.dialect.time(now)
    tx.execute(
        f"""UPDATE webhooks_app_endpointsecret SET last_used_at = %s
        WHERE {condition} AND (expires_at IS NULL OR expires_at > %s)""",
        [moment, *ids, moment],
    )
