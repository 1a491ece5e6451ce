"""Decides which deliveries a batch of fan-out makes: bounded, however many endpoints an event has."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

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


def in_turn(items: Sequence[Item], tenants: Sequence[str | None]) -> list[Item]:
    """Arrange items so that each tenant's first comes before anybody's second, in the order of `tenants`.

    A tenant's own items stay in their order.
    """
    if len(tenants) == 1:
        return list(items)
    places = {tenant: place for place, tenant in enumerate(tenants)}
    seen: Counter[str | None] = Counter()
    keyed = []
    for item in items:
        tenant = item.facts.tenant_id
        keyed.append((seen[tenant], places[tenant], item))
        seen[tenant] += 1
    return [item for _, _, item in sorted(keyed, key=itemgetter(0, 1))]


def plan(items: Sequence[Item], subscribers: Subscribers, size: int = MAX_DELIVERIES) -> Plan:
    """Take events in order until `size` deliveries; the last one is cut where it does not fit."""
    planned = Plan()
    for item in items:
        wanted = [endpoint_id for endpoint_id in subscribers.of(item.facts) if endpoint_id > item.after]
        taken = tuple(wanted[: size - planned.deliveries])
        planned.cut = len(taken) < len(wanted)
        if taken or not planned.cut:
            planned.events.append(Planned(item, taken, not planned.cut, taken[-1] if taken else item.after))
            planned.deliveries += len(taken)
        if planned.cut:
            break
    return planned
