"""Step 3a of the path: claim what is due, in one short transaction that locks the endpoints' state rows.

In this order: lock the states, read the gates (a later statement, so that it sees what was committed while
the lock was waited for), select candidates, update them by id. One statement for all overshoots every cap.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..conf import node_name
from ..ids import new_token
from .choice import Choice, choose, depths, grants
from .claim import candidates, end_of_life, mark
from .counts import count_dead
from .gate_rows import lock_gates, locked_elsewhere
from .gates import Gate, Room
from .probes import begin_probes
from .rates import read_buckets, save_buckets
from .transactions import Tx, short
from .work import Lease, Unit

MARGIN = timedelta(seconds=15)
LOST_AT = 3
CROWDED_WAIT = 1.0


def lease(alias: str, endpoint_ids: Sequence[int], room: Room, *, divert: bool = False) -> Lease:
    """Claim due deliveries of these endpoints.

    Args:
        alias: the delivery database.
        endpoint_ids: endpoints to look at; unknown ones are ignored.
        room: free senders of this process.
        divert: leave out slow endpoints; another queue serves them.
    """
    ids = sorted(set(endpoint_ids))
    return short(alias, lambda tx: _lease(tx, ids, room, divert=divert), durable=False, sidestep=True)


def _lease(tx: Tx, ids: list[int], room: Room, *, divert: bool) -> Lease:
    gates, now = lock_gates(tx, ids)
    # The anchor between the two clocks: every later moment of this lease is told by the local one.
    claim = Lease(token=new_token(), claimed_at=now, until=now, mark=time.monotonic())
    claim.stuck = locked_elsewhere(tx, ids, gates)
    if not gates:
        return claim
    claim.gates = by_id = {gate.endpoint_id: gate for gate in gates}
    ended, unfinished = end_of_life(tx, gates, now)
    claim.slow = tuple(gate.endpoint_id for gate in gates if divert and gate.is_slow)
    mine = [gate for gate in gates if gate.endpoint_id not in claim.slow]
    allowed = grants(mine, now, room)
    found = candidates(tx, depths(allowed, by_id, now), by_id, now)
    buckets = read_buckets(tx, [by_id[key] for key in allowed], now)
    turn = claim.token.int % 1000 / 1000
    choice = choose(allowed, found, by_id, buckets, room=room, now=now, turn=turn)
    save_buckets(tx, buckets)
    claim.resting = frozenset(choice.resting)
    claim.ended = (*ended, *found.late)
    claim.more = frozenset(choice.more | unfinished | {each.endpoint_id for each in found.late})
    _claim(tx, claim, choice.units, now)
    count_dead(tx, claim.ended)
    claim.later = _note(tx, mine, choice, waiting=found.waiting, now=now)
    return claim


def _claim(tx: Tx, claim: Lease, units: Sequence[Unit], now: datetime) -> None:
    """Write the claim of the chosen units into their rows, and fill in the lease."""
    longest = max((claim.gates[unit[0].endpoint_id].policy.total_timeout for unit in units), default=0.0)
    claim.until = now + MARGIN + timedelta(seconds=longest)
    jobs = [job for unit in units for job in unit if not job.is_ping]
    mark(tx, jobs, token=claim.token, until=claim.until, now=now)
    claim.lost = tuple(unit[0] for unit in units if unit[0].lapses >= LOST_AT)
    for job in claim.lost:
        job.trigger = "schedule"  # nothing is sent, so it probes nobody; and it must not go on for ever
    claim.units = tuple(unit for unit in units if unit[0].lapses < LOST_AT)
    begin_probes(tx, claim.units, claim.gates, token=claim.token, until=claim.until, now=now)
    ordered = {unit[0].endpoint_id for unit in units if unit[0].lane is not None}
    note_owner(tx, ordered, claim.until)


def note_owner(tx: Tx, endpoint_ids: Iterable[int], until: datetime) -> None:
    """Note for people that this node is at work on the lanes of these endpoints, and until when."""
    _set_states(tx, "owner = %s, owner_until = %s", endpoint_ids, node_name(), tx.dialect.time(until))


def _note(
    tx: Tx, gates: Sequence[Gate], choice: Choice, *, waiting: Collection[int], now: datetime
) -> Mapping[int, float]:
    """Leave word in the state rows; return in how many seconds to look at which endpoint again.

    `starved` asks the record that frees a place to wake the endpoint. `woken_until` says that a wake is
    coming, and is cleared by whoever looks at the endpoint. The tick's says half a minute: what brought us
    here may have been that wake, so only one that comes as soon as ours would is relied on.
    """
    later = {**dict.fromkeys(choice.crowded, CROWDED_WAIT), **choice.rated}
    starved, looked_at, to_wake = [], [], {}
    for gate in gates:
        key = gate.endpoint_id
        if not gate.starved and (key in waiting or (gate.is_open(now) and not gate.free)):
            starved.append(key)
        if key not in later:
            if gate.woken_until is not None:
                looked_at.append(key)
        elif not (gate.woken_until and now < gate.woken_until <= now + timedelta(seconds=later[key])):
            to_wake[key] = later[key]
    _set_states(tx, "starved = TRUE", starved)
    _set_states(tx, "woken_until = NULL", looked_at)
    for wait, keys in _by_wait(to_wake).items():
        _set_states(tx, "woken_until = %s", keys, tx.dialect.time(now + timedelta(seconds=wait)))
    return to_wake


def _by_wait(waits: Mapping[int, float]) -> dict[float, list[int]]:
    grouped: dict[float, list[int]] = {}
    for key, wait in waits.items():
        grouped.setdefault(wait, []).append(key)
    return grouped


def _set_states(tx: Tx, change: str, ids: Iterable[int], *values: Any) -> None:
    if keys := sorted(ids):
        condition, params = tx.dialect.among("endpoint_id", keys)
        tx.execute(f"UPDATE webhooks_app_endpointstate SET {change} WHERE {condition}", [*values, *params])
