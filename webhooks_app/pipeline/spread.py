"""Step 2c of the path: what a batch of fan-out planned becomes Event rows and Deliveries."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from ..core.ordering import lane_of
from ..models import Delivery
from .index import Item, insert_events, note_progress
from .locks import next_positions
from .plan import Planned
from .transactions import Tx

# SQLite takes 32,766 parameters a statement.
ROWS = 4_000

_DELIVERY = {
    "endpoint_id": "bigint",
    "event_id": "bigint",
    "position": "bigint",
    "lane": "text",
    "occurred_at": "timestamptz",
    "expires_at": "timestamptz",
    "started_at": "timestamptz",
}
_LISTED = ", ".join(_DELIVERY)
_PRIORITY = f"CASE WHEN lane IS NULL THEN {Delivery.Priority.LIVE:d} ELSE {Delivery.Priority.ORDERED:d} END"
# `WHERE TRUE` keeps SQLite from reading ON CONFLICT as a join condition.
_INSERT = f"""INSERT INTO webhooks_app_delivery ({_LISTED},
state, priority, due_at, attempts, step, deferrals, lapses, last_error, created_at)
SELECT {_LISTED}, 'pending', {_PRIORITY}, %s, 0, 0, 0, 0, '', %s
FROM {{values}} WHERE TRUE ON CONFLICT (endpoint_id, event_id) DO NOTHING"""


def spread(
    tx: Tx, outbox_alias: str, events: Sequence[Planned], *, orderings: Mapping[int, str], now: datetime
) -> None:
    """Write the rows of events in their order, which is the order of the deliveries' positions.

    `orderings` names the endpoints whose deliveries have lanes. A delivery's schedule starts with the
    recording of its event.
    """
    keys = _index(tx, outbox_alias, events, now)
    count = sum(len(each.endpoint_ids) for each in events)
    if not count:
        return
    position = next_positions(tx.cursor, count)
    rows: list[tuple[Any, ...]] = []
    for each in events:
        rows += _rows(tx, each, (keys[each.item.public_id], position + len(rows)), orderings)
    # Two fan-outs that meet on the same rows lock them in the same order.
    rows.sort(key=itemgetter(0, 1))
    moment = tx.dialect.time(now)
    for start in range(0, count, ROWS):
        values, params = tx.dialect.values(_DELIVERY, rows[start : start + ROWS])
        tx.execute(_INSERT.format(values=values), [moment, moment, *params])


def _index(tx: Tx, outbox_alias: str, events: Sequence[Planned], now: datetime) -> dict[str, int]:
    new = [each for each in events if each.item.key is None]
    keys = {each.item.public_id: each.item.key for each in events if each.item.key is not None}
    if new:
        rows = [(each.item, now if each.finished else None, each.reached) for each in new]
        keys |= insert_events(tx, outbox_alias, rows)
    for each in events:
        if each.item.key is not None:
            note_progress(tx, each.item.key, after=each.reached, finished_at=now if each.finished else None)
    return keys


def _rows(
    tx: Tx, event: Planned, numbers: tuple[int, int], orderings: Mapping[int, str]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an event with this key, at positions from that one on."""
    (key, position), item, time = numbers, event.item, tx.dialect.time
    times = time(item.occurred_at), time(item.expires_at), time(item.recorded_at)
    lanes = _lanes(event, orderings)
    for place, endpoint_id in enumerate(event.endpoint_ids, position):
        yield (endpoint_id, key, place, lanes.get(endpoint_id), *times)


def _lanes(event: Planned, orderings: Mapping[int, str]) -> dict[int, str | None]:
    """Return the lanes of an event at its ordered endpoints."""
    ordered = [endpoint_id for endpoint_id in event.endpoint_ids if endpoint_id in orderings]
    lanes = {ordering: _lane(ordering, event.item) for ordering in {orderings[each] for each in ordered}}
    return {endpoint_id: lanes[orderings[endpoint_id]] for endpoint_id in ordered}


def _lane(ordering: str, item: Item) -> str | None:
    # Events of the sender itself have no owner.
    kind, owner_id = (item.entry.owner_kind, item.entry.owner_id) if item.entry else (None, None)
    return lane_of(ordering, tenant_id=item.facts.tenant_id, owner_kind=kind, owner_id=owner_id)
