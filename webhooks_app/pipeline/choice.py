"""What a lease takes of the candidates: shares of the priorities, turns of the endpoints, senders, tokens."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from ..models import Delivery
from .claim import Found
from .gates import BATCH_IN_ALL, Gate, Room, probe_size, share, take_turns
from .probes import ping
from .rates import Buckets
from .work import Unit

BULK = int(Delivery.Priority.BULK)
ALONE_FROM = 2
# So many are looked at where only probes may leave: those that are too late end, or they would for ever.
PROBE_DEPTH = 100


@dataclass(slots=True)
class Choice:
    """The units of a lease; endpoints with more due, those without a sender, those without a token.

    `resting` are those whose bulk work has to wait for a lease that may take it.
    """

    units: list[Unit] = field(default_factory=list)
    more: set[int] = field(default_factory=set)
    crowded: set[int] = field(default_factory=set)
    rated: dict[int, float] = field(default_factory=dict)
    resting: set[int] = field(default_factory=set)


def grants(gates: Sequence[Gate], now: datetime, room: Room) -> dict[int, int]:
    """Return how many candidates of each open endpoint to look at: what its gates and our senders allow."""
    size = min(probe_size(len(gates)), max(1, room.senders))
    return {gate.endpoint_id: min(most, size) for gate in gates if (most := _most(gate, now)) > 0}


def _most(gate: Gate, now: datetime) -> int:
    if not gate.is_open(now):
        return 0
    if gate.admission(now) == "all" or gate.policy.breaker is None:
        return gate.free
    # A window may have shrunk to what is still under way; the endpoint's own limit stands.
    return min(max(1, gate.free), gate.max_in_flight - gate.live, gate.policy.breaker.probes)


def depths(allowed: Mapping[int, int], gates: Mapping[int, Gate], now: datetime) -> dict[int, int]:
    """Return how many due deliveries of each priority to read, given how many may leave."""
    probing = _probing(allowed, gates, now)
    return {key: PROBE_DEPTH if key in probing else size for key, size in allowed.items()}


def _probing(allowed: Mapping[int, int], gates: Mapping[int, Gate], now: datetime) -> set[int]:
    return {key for key in allowed if gates[key].admission(now) == "probe"}


def choose(
    allowed: Mapping[int, int],
    found: Found,
    gates: Mapping[int, Gate],
    buckets: Buckets,
    *,
    room: Room,
    now: datetime,
    turn: float,
) -> Choice:
    """Choose among the candidates; `turn` in [0, 1) says who gets the places that shares divide."""
    probing = _probing(allowed, gates, now)
    resting = _hold_back(found, probing, room.bulk)
    queues = [
        oldest(allowed[key], by_priority) if key in probing else share(allowed[key], by_priority, turn)
        for key, by_priority in found.by_endpoint.items()
    ]
    queues += [[ping(gates[key])] for key in probing - found.by_endpoint.keys() - found.waiting]
    wanted = list(_cut(take_turns(queues, sum(map(len, queues))), probing))
    full = {key for key, queue in found.by_endpoint.items() if _is_full(queue, allowed[key])}
    choice = Choice(more=full - probing, resting=resting)
    refused = _fit(choice, wanted, gates, buckets, room=room)
    taken = {unit[0].endpoint_id for unit in choice.units}
    passed_over = refused - taken - choice.rated.keys()
    choice.more |= found.parked
    if alone := _suspects(choice.units):
        others = taken | passed_over
        for unit in choice.units:
            if unit is not alone[0]:
                buckets.put_back(unit)
        choice.units = alone[:1]
        choice.more |= others
    elif sum(map(len, choice.units)) >= BATCH_IN_ALL:
        choice.more |= passed_over
    else:
        # To look again at once would be in vain: there is no sender for any of theirs.
        choice.more -= passed_over
        choice.resting -= passed_over
        choice.crowded = set(passed_over)
    choice.more -= choice.rated.keys()
    choice.resting -= choice.rated.keys()
    return choice


def _hold_back(found: Found, probing: Collection[int], most: int) -> set[int]:
    """Leave out bulk work beyond `most` of an endpoint, but for probes; return where there is some left."""
    held = {
        key
        for key, by_priority in found.by_endpoint.items()
        if key not in probing and len(by_priority[BULK]) > most
    }
    for key in held:
        del found.by_endpoint[key][BULK][most:]
    return held


def oldest(size: int, by_priority: Sequence[Sequence[Unit]]) -> list[Unit]:
    """Pick at most `size` candidates to probe a breaker with: those that have been due for longest."""
    return sorted(chain.from_iterable(by_priority), key=lambda unit: (unit[0].due or 0.0, unit[0].id))[:size]


def _cut(units: Sequence[Unit], probing: Collection[int]) -> Iterator[Unit]:
    """Shorten chains: all lanes get a turn, a probe is one request, and who killed workers goes alone."""
    size = max(1, BATCH_IN_ALL // max(1, len(units)))
    for unit in units:
        if unit[0].endpoint_id in probing:
            unit[0].trigger = "probe"
            yield unit[:1]
        elif len(unit) > 1:
            suspect = next((place for place, job in enumerate(unit) if job.lapses >= ALONE_FROM), size)
            yield unit[: max(1, min(size, suspect))]
        else:
            yield unit


def _is_full(queues: Sequence[Sequence[Unit]], size: int) -> bool:
    """Whether there may be more where these came from: all that was asked for, or a chain with a tail."""
    return sum(map(len, queues)) >= size or any(len(unit) > 1 for unit in queues[0])


def _fit(
    choice: Choice, wanted: Sequence[Unit], gates: Mapping[int, Gate], buckets: Buckets, *, room: Room
) -> set[int]:
    """Take what this process has senders for; unknown and slow endpoints may use only a part of them.

    Returns the endpoints that lacked one.
    """
    refused: set[int] = set()
    left, senders, cautious = BATCH_IN_ALL, min(BATCH_IN_ALL, room.senders), room.cautious
    bulk = room.bulk
    for unit in wanted:
        key = unit[0].endpoint_id
        careful = gates[key].cautious
        if left <= 0 or senders <= 0 or (careful and cautious <= 0):
            refused.add(key)
            continue
        is_bulk = unit[0].priority == BULK and unit[0].trigger != "probe"
        if is_bulk and bulk <= 0:
            choice.resting.add(key)
            continue
        taken = _afford(choice, unit[:left], buckets) if buckets else unit[:left]
        if not taken:
            continue
        choice.units.append(taken)
        left -= len(taken)
        senders -= 1
        cautious -= careful
        bulk -= is_bulk
    choice.more |= refused
    return refused


def _afford(choice: Choice, unit: Unit, buckets: Buckets) -> Unit:
    """Return as much of the unit as there are tokens for; who lacks some waits for the next."""
    key = unit[0].endpoint_id
    if key in choice.rated:
        return ()
    taken = buckets.take(unit)
    if len(taken) < len(unit):
        choice.rated[key] = buckets.wait(key)
    return taken


def _suspects(units: Sequence[Unit]) -> list[Unit]:
    """Return the units to send alone, one at a time: their workers died more than once."""
    found = [unit for unit in units if unit[0].lapses >= ALONE_FROM]
    return found if len(units) > 1 else []
