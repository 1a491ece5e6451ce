"""Step 3a of the path: claim what is due, in one short transaction that locks the endpoints' state rows.

Four statements, in this order: lock the states, read the gates (a later statement, so that it sees what was
committed while the lock was waited for), select candidates, update them by id. One statement for all of it
overshoots every cap.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ..destinations.policy import resolve
from ..ids import new_token
from . import clock
from .claim import candidates, end_of_life, mark
from .dialect import Dialect
from .gates import BATCH_IN_ALL, Gate, Room, probe_size, share, take_turns
from .tenancy import is_suspended, retention_days
from .transactions import Tx, short
from .work import Job, Lease

MARGIN = timedelta(seconds=15)
ALONE_FROM = 2
LOST_AT = 3
CROWDED_WAIT = timedelta(seconds=1)


def lease(alias: str, endpoint_ids: Sequence[int], room: Room) -> Lease:
    """Claim due deliveries of these endpoints.

    Args:
        alias: the delivery database.
        endpoint_ids: endpoints to look at; unknown ones are ignored.
        room: free senders of this process.

    Returns:
        Lease; `jobs` to send, `lost` whose workers died three times, `more` endpoints that have or may have
        more due, `crowded` ones that this process has no sender for, `stuck` ones that somebody has locked.
    """
    ids = sorted(set(endpoint_ids))
    return short(alias, lambda tx: _lease(tx, ids, room), durable=False, sidestep=True)


def _lease(tx: Tx, ids: list[int], room: Room) -> Lease:
    gates, now = _locked(tx, ids)
    # The anchor between the two clocks: every later moment of this lease is told by the local one.
    started = time.monotonic()
    token = new_token()
    stuck = _stuck(tx, ids, gates)
    if not gates:
        return Lease(token=token, claimed_at=now, until=now, mark=started, stuck=stuck)
    ended, unfinished = end_of_life(tx, gates, now)
    by_id = {gate.endpoint_id: gate for gate in gates}
    grants = _grants(gates, now, room)
    found = candidates(tx, grants, gates, now)
    choice = _choose(grants, found.by_endpoint, by_id, room=room, turn=token.int % 1000 / 1000)
    until = now + MARGIN + _longest([by_id[job.endpoint_id] for job in choice.jobs])
    mark(tx, choice.jobs, token=token, until=until, now=now)
    return Lease(
        token=token,
        claimed_at=now,
        until=until,
        mark=started,
        jobs=tuple(job for job in choice.jobs if job.lapses < LOST_AT),
        lost=tuple(job for job in choice.jobs if job.lapses >= LOST_AT),
        gates=by_id,
        more=frozenset(choice.more | unfinished | {each.endpoint_id for each in found.expired}),
        crowded=_note(tx, gates, choice.crowded, now),
        stuck=stuck,
        ended=(*ended, *found.expired),
    )


def _longest(gates: Sequence[Gate]) -> timedelta:
    return timedelta(seconds=max((gate.policy.total_timeout for gate in gates), default=0.0))


# The clock is asked outside of the locking select: PostgreSQL would fill in its columns before it waits.
_STATES = """SELECT s.*, {now} FROM (SELECT endpoint_id, enabled, paused_at IS NOT NULL AS paused, hold_until,
"window", starved, woken_until, generation FROM webhooks_app_endpointstate WHERE {ids}
ORDER BY endpoint_id {lock}) AS s"""

_GATES = """SELECT e.id, e.deleted_at IS NOT NULL, e.max_in_flight, e.revision, e.policy, e.policy_overrides,
t.suspended_at IS NOT NULL OR p.suspended_at IS NOT NULL, t.retention_days, e.tenant_id, e.partner_id,
(SELECT count(*) FROM webhooks_app_delivery d
 WHERE d.endpoint_id = e.id AND d.lease_token IS NOT NULL AND d.lease_until >= %s)
FROM webhooks_app_endpoint e LEFT JOIN webhooks_app_tenant t ON t.id = e.tenant_id
LEFT JOIN webhooks_app_partner p ON p.id = COALESCE(e.partner_id, t.partner_id) WHERE {ids}"""


def _locked(tx: Tx, ids: list[int]) -> tuple[list[Gate], datetime]:
    condition, values = tx.dialect.among("endpoint_id", ids)
    tx.execute(_STATES.format(now=tx.dialect.now_sql, ids=condition, lock=tx.lock), values)
    states = tx.rows()
    # The last row's clock: it was read after the last wait for a lock.
    now = clock.read(states[-1][8] if states else None)
    if not states:
        return [], now
    condition, values = tx.dialect.among("e.id", [row[0] for row in states])
    tx.execute(_GATES.format(ids=condition), [tx.dialect.time(now), *values])
    endpoints = {row[0]: row for row in tx.rows()}
    return [_gate(tx.dialect, row, endpoints[row[0]]) for row in states if row[0] in endpoints], now


def _stuck(tx: Tx, ids: Sequence[int], gates: Sequence[Gate]) -> tuple[int, ...]:
    """Return the endpoints that were left out because somebody has their state row locked."""
    if not tx.skip:
        return ()
    condition, values = tx.dialect.among(
        "endpoint_id", sorted(set(ids) - {gate.endpoint_id for gate in gates})
    )
    tx.execute(f"SELECT endpoint_id FROM webhooks_app_endpointstate WHERE {condition}", values)
    return tuple(row[0] for row in tx.rows())


def _gate(dialect: Dialect, state: tuple[Any, ...], endpoint: tuple[Any, ...]) -> Gate:
    return Gate(
        endpoint_id=state[0],
        enabled=bool(state[1]),
        deleted=bool(endpoint[1]),
        held=bool(state[2]) or bool(endpoint[6]) or is_suspended(endpoint[8], endpoint[9]),
        hold_until=dialect.moment(state[3]),
        window=state[4],
        starved=bool(state[5]),
        woken_until=dialect.moment(state[6]),
        generation=state[7],
        max_in_flight=endpoint[2],
        revision=endpoint[3],
        policy=resolve(endpoint[4], endpoint[5]),
        retention_days=endpoint[7] or retention_days(endpoint[8]),
        live=endpoint[10],
    )


def _grants(gates: Sequence[Gate], now: datetime, room: Room) -> dict[int, int]:
    """Return how many deliveries of each open endpoint to look at."""
    size = min(probe_size(len(gates)), max(1, room.senders))
    return {
        gate.endpoint_id: min(gate.free, size)
        for gate in gates
        if gate.enabled and not gate.deleted and not gate.is_closed(now) and gate.free
    }


@dataclass(slots=True)
class _Choice:
    """The jobs of a lease, the endpoints with more due, and those with no sender for any of it."""

    jobs: list[Job]
    more: set[int]
    crowded: set[int]


def _choose(
    grants: Mapping[int, int],
    found: Mapping[int, list[list[Job]]],
    gates: Mapping[int, Gate],
    *,
    room: Room,
    turn: float,
) -> _Choice:
    queues = [share(grants[endpoint_id], by_priority, turn) for endpoint_id, by_priority in found.items()]
    more = {i for i, by_priority in found.items() if sum(map(len, by_priority)) >= grants[i]}
    wanted = take_turns(queues, sum(map(len, queues)))
    jobs = _fitting(wanted, gates, room)
    chosen = {job.endpoint_id for job in jobs}
    passed_over = found.keys() - chosen
    if len(jobs) < len(wanted):
        taken = {job.id for job in jobs}
        more |= {job.endpoint_id for job in wanted if job.id not in taken}
    suspects = [job for job in jobs if job.lapses >= ALONE_FROM]
    if suspects and len(jobs) > 1:
        return _Choice(suspects[:1], more | chosen | passed_over, set())
    if len(jobs) == BATCH_IN_ALL:
        return _Choice(jobs, more | passed_over, set())
    # To look again at once would be in vain: there is no sender for any of theirs.
    return _Choice(jobs, more - passed_over, passed_over)


def _fitting(wanted: Sequence[Job], gates: Mapping[int, Gate], room: Room) -> list[Job]:
    """Take what this process has senders for; unknown and slow endpoints may use only a part of them."""
    jobs: list[Job] = []
    senders, cautious = min(BATCH_IN_ALL, room.senders), room.cautious
    for job in wanted:
        careful = gates[job.endpoint_id].cautious
        if senders <= 0 or (careful and cautious <= 0):
            continue
        jobs.append(job)
        senders -= 1
        cautious -= careful
    return jobs


def _note(tx: Tx, gates: Sequence[Gate], crowded: Collection[int], now: datetime) -> tuple[int, ...]:
    """Leave word in the state rows; return the crowded endpoints that no wake is on its way for.

    `starved` asks the record that frees a place to wake the endpoint. `woken_until` says that a wake is
    coming, and is cleared by whoever looks at the endpoint. The tick's says half a minute: what brought us
    here may have been that wake, so only one that comes as soon as ours would is relied on.
    """
    soon = now + CROWDED_WAIT
    open_gates = [gate for gate in gates if gate.enabled and not gate.is_closed(now)]
    starved = [gate.endpoint_id for gate in open_gates if not gate.free and not gate.starved]
    looked_at = [
        gate.endpoint_id for gate in gates if gate.woken_until is not None and gate.endpoint_id not in crowded
    ]
    to_wake = [
        gate.endpoint_id
        for gate in gates
        if gate.endpoint_id in crowded and not (gate.woken_until and now < gate.woken_until <= soon)
    ]
    _set_states(tx, "starved = TRUE", starved)
    _set_states(tx, "woken_until = NULL", looked_at)
    _set_states(tx, "woken_until = %s", to_wake, tx.dialect.time(soon))
    return tuple(to_wake)


def _set_states(tx: Tx, change: str, ids: Sequence[int], *values: Any) -> None:
    if ids:
        condition, params = tx.dialect.among("endpoint_id", ids)
        tx.execute(f"UPDATE webhooks_app_endpointstate SET {change} WHERE {condition}", [*values, *params])
