"""Step 3c of the path: write down what happened, in one short transaction fenced by the lease's token.

Lock order: endpoint states by id, then deliveries, then attempts. Whoever finds its token gone records
nothing: the claim lapsed and another worker has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from ..core.states import DELIVERED, PENDING
from ..destinations.config import EndpointConfig
from .dialect import Dialect, dialect_of
from .evidence import insert_attempts
from .health import StateRow, changed_states, lock_states, save_states
from .judge import Judged
from .system_events import announce_disabled
from .transactions import short
from .work import Done, Ended, Lease

SOON = timedelta(seconds=5)


@dataclass(slots=True)
class Recorded:
    """What a record wrote: attempts, deliveries that ended, endpoints it disabled, and whom to wake."""

    attempts: list[Judged] = field(default_factory=list)
    released: int = 0
    ended: list[Ended] = field(default_factory=list)
    disabled: list[tuple[int, str]] = field(default_factory=list)
    wake: set[int] = field(default_factory=set)
    later: dict[int, float] = field(default_factory=dict)


def record(
    alias: str,
    lease: Lease,
    judged: Sequence[Judged],
    released: Sequence[Done],
    *,
    configs: Mapping[int, EndpointConfig],
) -> Recorded:
    """Record finished jobs and give back released ones.

    Args:
        alias: the delivery database.
        lease: the claim they belong to.
        judged: jobs with an outcome.
        released: jobs that were not attempted; they use no attempt and are due again at once.
        configs: EndpointConfig by endpoint, for the evidence.

    Returns:
        Recorded; jobs whose claim was taken over are in none of its lists.
    """
    judged = sorted(judged, key=lambda each: each.job.id)
    return short(alias, lambda cursor: _record(cursor, alias, lease, judged, released, configs))


def _record(
    cursor: Any,
    alias: str,
    lease: Lease,
    judged: Sequence[Judged],
    released: Sequence[Done],
    configs: Mapping[int, EndpointConfig],
) -> Recorded:
    dialect = dialect_of(connections[alias])
    endpoint_ids = {each.job.endpoint_id for each in judged} | {done.job.endpoint_id for done in released}
    states, now = lock_states(cursor, dialect, sorted(endpoint_ids))
    kept = _update_deliveries(cursor, dialect, lease, judged, now)
    mine = [each for each in judged if each.job.id in kept]
    recorded = Recorded(attempts=mine, released=_release(cursor, dialect, lease, released))
    insert_attempts(cursor, dialect, lease, mine, configs)
    changes = changed_states(states, mine, lease.gates, now)
    _plan_wakes(recorded, states, changes, mine, released, now)
    save_states(cursor, dialect, changes.values(), now)
    for row in changes.values():
        if row.disabled_now:
            trigger = next(each for each in reversed(mine) if each.job.endpoint_id == row.endpoint_id)
            announce_disabled(cursor, dialect, lease, row, trigger, now)
            recorded.disabled.append((row.endpoint_id, row.disabled_reason or ""))
    recorded.ended = [_ended(each) for each in mine if each.outcome.state not in (PENDING, DELIVERED)]
    return recorded


def _update_deliveries(
    cursor: Any, dialect: Dialect, lease: Lease, judged: Sequence[Judged], now: datetime
) -> set[int]:
    delivered = [each.job.id for each in judged if each.outcome.state == DELIVERED]
    others = [each for each in judged if each.outcome.state != DELIVERED]
    kept: set[int] = set()
    if delivered:
        condition, ids = dialect.among("id", delivered)
        moment = dialect.time(now)
        cursor.execute(_DELIVERED.format(condition), [moment, moment, *ids, dialect.uuid(lease.token)])
        kept.update(row[0] for row in cursor.fetchall())
    if others:
        item, values = dialect.values(_OTHER_TYPES, [_other(each, dialect, now) for each in others])
        cursor.execute(_OTHERS.format(item), [*values, dialect.uuid(lease.token)])
        kept.update(row[0] for row in cursor.fetchall())
    return kept


_DELIVERED = """UPDATE webhooks_app_delivery SET state = 'delivered', attempts = attempts + 1, lapses = 0,
lease_token = NULL, lease_until = NULL, due_at = NULL, last_error = '', finished_at = %s,
first_delivered_at = COALESCE(first_delivered_at, %s) WHERE {} AND lease_token = %s RETURNING id"""

_OTHER_TYPES = {
    "job": "bigint",
    "new_state": "text",
    "error": "text",
    "due": "timestamptz",
    "new_step": "int",
    "new_deferrals": "int",
    "ended": "timestamptz",
}
# Retries get a priority of their own, so that a backlog of them cannot starve new events or be starved.
_OTHERS = """UPDATE webhooks_app_delivery SET state = v.new_state, attempts = attempts + 1, lapses = 0,
lease_token = NULL, lease_until = NULL, due_at = v.due, last_error = v.error, step = v.new_step,
deferrals = v.new_deferrals, finished_at = v.ended, priority = CASE WHEN priority = 0 THEN 1 ELSE priority END
FROM {} WHERE id = v.job AND lease_token = %s RETURNING id"""


def _other(each: Judged, dialect: Dialect, now: datetime) -> tuple[Any, ...]:
    outcome = each.outcome
    ended = None if outcome.state == PENDING else now
    return (
        each.job.id,
        str(outcome.state),
        outcome.error,
        dialect.time(outcome.due_at),
        outcome.step,
        outcome.deferrals,
        dialect.time(ended),
    )


def _release(cursor: Any, dialect: Dialect, lease: Lease, released: Sequence[Done]) -> int:
    if not released:
        return 0
    condition, ids = dialect.among("id", sorted(done.job.id for done in released))
    cursor.execute(
        f"""UPDATE webhooks_app_delivery SET lease_token = NULL, lease_until = NULL
        WHERE {condition} AND lease_token = %s""",
        [*ids, dialect.uuid(lease.token)],
    )
    return int(cursor.rowcount)


def _plan_wakes(
    recorded: Recorded,
    states: Mapping[int, StateRow],
    changes: dict[int, StateRow],
    mine: Iterable[Judged],
    released: Iterable[Done],
    now: datetime,
) -> None:
    recorded.wake.update(done.job.endpoint_id for done in released)
    soonest: dict[int, datetime] = {}
    for each in mine:
        due_at = each.outcome.due_at
        if due_at is not None and due_at - now < SOON:
            known = soonest.get(each.job.endpoint_id)
            soonest[each.job.endpoint_id] = due_at if known is None else min(known, due_at)
    for endpoint_id, state in states.items():
        due_at = soonest.get(endpoint_id)
        pending = state.woken_until is not None and now < state.woken_until
        if due_at is not None and not (pending and state.woken_until <= due_at):  # type: ignore[operator]
            recorded.later[endpoint_id] = (due_at - now).total_seconds()
            changes.setdefault(endpoint_id, state).woken_until = due_at
        if state.starved:
            recorded.wake.add(endpoint_id)
            changes.setdefault(endpoint_id, state).starved = False


def _ended(each: Judged) -> Ended:
    job = each.job
    return Ended(
        job.id,
        job.endpoint_id,
        job.event_id,
        str(each.outcome.state),
        each.outcome.error,
        job.number,
        job.occurred,
    )
