"""Decides which deliveries a batch of fan-out makes: bounded, however many endpoints an event has."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .index import Item
from .subscribers import Subscribers

MAX_DELIVERIES = 5_000


@dataclass(frozen=True, slots=True)
class Planned:
    """One event's share of a batch: its endpoints, and the last one reached when it is not finished."""

    item: Item
    endpoint_ids: tuple[int, ...]
    finished: bool
    reached: int


@dataclass(slots=True)
class Plan:
    """The events of a batch. `cut` says that not everything fitted."""

    events: list[Planned] = field(default_factory=list)
    deliveries: int = 0
    cut: bool = False


def plan(items: Sequence[Item], subscribers: Subscribers, size: int = MAX_DELIVERIES) -> Plan:
    """Take events in order until `size` deliveries; only the first may be larger than that, and is cut."""
    planned = Plan()
    for item in items:
        wanted = [endpoint_id for endpoint_id in subscribers.of(item.facts) if endpoint_id > item.after]
        room = size - planned.deliveries
        if len(wanted) > room and planned.events:
            planned.cut = True
            break
        taken = tuple(wanted[:room])
        finished = len(taken) == len(wanted)
        planned.events.append(Planned(item, taken, finished, taken[-1] if taken else item.after))
        planned.deliveries += len(taken)
        if not finished:
            planned.cut = True
            break
    return planned
