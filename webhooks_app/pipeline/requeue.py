"""Deliveries made due from outside of the path: ended ones begin anew, open ones are hastened, new ones made.

Whoever calls this has the state row of the endpoint locked.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ..core.ordering import lane_of
from ..models import Delivery, Event
from .lanes import promote
from .locks import next_positions
from .transactions import Tx

RETRY: Final = int(Delivery.Priority.RETRY)
BULK: Final = int(Delivery.Priority.BULK)
ORDERED: Final = int(Delivery.Priority.ORDERED)


@dataclass(frozen=True, slots=True)
class Place:
    """An event that an endpoint shall have, its lane there, and its ended delivery; None: it has none yet."""

    event_id: int
    delivery_id: int | None
    lane: str | None
    occurred_at: datetime
    expires_at: datetime | None

    @classmethod
    def of(cls, event: Event, ordering: str, delivery_id: int | None) -> "Place":
        """Return the place of an event at an endpoint of this ordering."""
        lane = lane_of(
            ordering, tenant_id=event.tenant_id, owner_kind=event.owner_kind, owner_id=event.owner_id
        )
        return cls(event.pk, delivery_id, lane, event.occurred_at, event.expires_at)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An open delivery that is to begin its schedule anew."""

    delivery_id: int
    lane: str | None


def queue(
    tx: Tx,
    endpoint_id: int,
    places: Sequence[Place],
    *,
    priority: int,
    now: datetime,
    delivered_too: bool = False,
) -> int:
    """Make the events due at the endpoint, in the order of `places`; return how many are.

    Ended deliveries begin anew unless somebody sends them just now, delivered ones only with
    `delivered_too`; an event whose delivery was made meanwhile is left alone. Rows of lanes have a priority
    of their own.
    """
    if not places:
        return 0
    # Outside of lanes nobody asks for the order of old ones: they keep their positions.
    kept = [place for place in places if place.delivery_id is not None and place.lane is None]
    queued = _reopen(
        tx, [(None, place) for place in kept], priority=priority, now=now, delivered_too=delivered_too
    )
    # The counter stays locked to the commit, and the fan-out waits for it: it comes as late as possible.
    others = [place for place in places if place.delivery_id is None or place.lane is not None]
    numbered = list(enumerate(others, next_positions(tx.cursor, len(others)))) if others else []
    old = [(position, place) for position, place in numbered if place.delivery_id is not None]
    new = [(position, place) for position, place in numbered if place.delivery_id is None]
    queued += _reopen(tx, old, priority=priority, now=now, delivered_too=delivered_too)
    queued += _create(tx, endpoint_id, new, priority=priority, now=now)
    promote(tx, {(endpoint_id, place.lane) for place in places if place.lane is not None}, now)
    return queued


_REOPENED: Final = {"job": "bigint", "place": "bigint", "new_lane": "text", "new_priority": "int"}
# The ids are named twice: with the join alone, young statistics make PostgreSQL read the whole table.
_REOPEN: Final = """UPDATE webhooks_app_delivery SET state = 'pending', lane = v.new_lane,
position = COALESCE(v.place, position), priority = v.new_priority, due_at = %s, started_at = %s,
finished_at = NULL, step = 0, deferrals = 0, lapses = 0, lease_token = NULL, lease_until = NULL
FROM {} WHERE id = v.job AND {} AND state <> 'pending' AND {} AND (lease_until IS NULL OR lease_until < %s)"""


def _reopen(
    tx: Tx, rows: Sequence[tuple[int | None, Place]], *, priority: int, now: datetime, delivered_too: bool
) -> int:
    if not rows:
        return 0
    # Rows are locked in the order of their keys.
    values = [
        (place.delivery_id, position, place.lane, _priority(place.lane, priority)) for position, place in rows
    ]
    values.sort()
    item, params = tx.dialect.values(_REOPENED, values)
    condition, ids = tx.dialect.among("id", [row[0] for row in values])
    moment = tx.dialect.time(now)
    which = "TRUE" if delivered_too else "state <> 'delivered'"
    tx.execute(_REOPEN.format(item, condition, which), [moment, moment, *params, *ids, moment])
    return int(tx.cursor.rowcount)


_CREATED: Final = {
    "endpoint_id": "bigint",
    "event_id": "bigint",
    "position": "bigint",
    "lane": "text",
    "priority": "int",
    "occurred_at": "timestamptz",
    "expires_at": "timestamptz",
}
# `WHERE TRUE` keeps SQLite from reading ON CONFLICT as a join condition.
_CREATE: Final = """INSERT INTO webhooks_app_delivery (endpoint_id, event_id, position, lane, priority,
occurred_at, expires_at, state, due_at, started_at, attempts, step, deferrals, lapses, last_error, created_at)
SELECT endpoint_id, event_id, position, lane, priority, occurred_at, expires_at, 'pending', {now}, {now},
0, 0, 0, 0, '', {now} FROM {values} WHERE TRUE ON CONFLICT (endpoint_id, event_id) DO NOTHING"""


def _create(
    tx: Tx, endpoint_id: int, rows: Sequence[tuple[int, Place]], *, priority: int, now: datetime
) -> int:
    if not rows:
        return 0
    values = [
        (
            endpoint_id,
            place.event_id,
            position,
            place.lane,
            _priority(place.lane, priority),
            tx.dialect.time(place.occurred_at),
            tx.dialect.time(place.expires_at),
        )
        for position, place in rows
    ]
    # The order in which a fan-out inserts.
    values.sort(key=lambda row: row[:2])
    item, params = tx.dialect.values(_CREATED, values)
    moment = tx.dialect.time(now)
    tx.execute(_CREATE.format(now="%s", values=item), [moment, moment, moment, *params])
    return int(tx.cursor.rowcount)


def _priority(lane: str | None, otherwise: int) -> int:
    return otherwise if lane is None else ORDERED


def restart(
    tx: Tx, endpoint_id: int, waiting: Collection[Waiting], now: datetime, *, priority: int | None = None
) -> int:
    """Let open deliveries begin their schedule anew, now; return how many.

    Those that somebody is sending are left alone; what is parked behind the head of its lane stays there.
    With a `priority` those outside of lanes get it.
    """
    if not waiting:
        return 0
    condition, ids = tx.dialect.among("id", sorted(each.delivery_id for each in waiting))
    moment = tx.dialect.time(now)
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET step = 0, deferrals = 0, started_at = %s,
        priority = CASE WHEN lane IS NULL THEN COALESCE(%s, priority) ELSE priority END,
        due_at = CASE WHEN due_at > %s THEN %s ELSE due_at END
        WHERE {condition} AND state = 'pending' AND (lease_until IS NULL OR lease_until < %s)""",
        [moment, priority, moment, moment, *ids, moment],
    )
    restarted = int(tx.cursor.rowcount)
    promote(tx, {(endpoint_id, each.lane) for each in waiting if each.lane is not None}, now)
    return restarted
