"""Deliveries of some webhooks, or of very many, the newest event first, without reading a whole table.

One index has each webhook's deliveries by event, another one all deliveries by event. With a few webhooks the
newest of each are looked at and put together; with very many the index of all is walked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.lookups import Exact

from .. import conf
from ..actions.replay_selection import STATUSES
from ..core.states import DEAD
from ..models import Delivery, Endpoint, Event
from . import pagination
from .pagination import Floor, Key, look_at_most

KEYS: Final = ("event_id", "pk")
KEYS_AT_ONE: Final = ("event_id",)
# Above so many, looking at each costs more than walking all.
MERGED: Final = 200
# As the index says it, so that the database sees that they are the same.
IS_DEAD: Final = Q(state__in=sorted(state.value for state in DEAD))


def at_one(endpoint_id: int, given: Mapping[str, Any]) -> tuple[QuerySet[Delivery], Floor | None]:
    """Return the deliveries at one endpoint, for pages in the order of KEYS_AT_ONE, and where a page stops.

    Args:
        given: filters of the query; only whether there are any, and what they say of the state, counts here.
    """
    rows = _rows().filter(endpoint=endpoint_id)
    rows = rows.filter(IS_DEAD) if _asks_for_dead(given) else rows
    return rows, look_at_most(rows, KEYS_AT_ONE) if given else None


def at_many(
    endpoints: QuerySet[Endpoint], given: Mapping[str, Any], limit: int
) -> tuple[QuerySet[Delivery], Floor | None]:
    """Return the deliveries at these endpoints, for pages in the order of KEYS, and where a page stops.

    Args:
        given: as `at_one` has it.
        limit: how many a page shall have.
    """
    ids = list(endpoints.values_list("pk", flat=True)[: MERGED + 1])
    if len(ids) > MERGED:
        return _rows().filter(endpoint__in=endpoints), look_at_most(_rows(), KEYS)
    dead = _asks_for_dead(given)
    rows = _rows().filter(IS_DEAD) if dead else _rows()
    each = max(limit, pagination.LOOKED_AT // max(len(ids), 1)) if given else limit
    return rows.filter(endpoint__in=ids), look_at_each(ids, each, dead=dead)


def look_at_each(endpoint_ids: Sequence[int], count: int, *, dead: bool = False) -> Floor:
    """Return the floor after `count` deliveries of the endpoint that reaches it first."""

    def floor(last: Key | None) -> Key | None:
        rows = _rows().filter(endpoint=OuterRef("pk"))
        rows = rows.filter(IS_DEAD) if dead else rows
        rows = rows if last is None else rows.filter(event_id__lte=last[0])
        beyond = rows.order_by("-event_id").values("event_id")[count : count + 1]
        owners = Endpoint.objects.using(rows.db).filter(pk__in=endpoint_ids)
        highest = owners.annotate(floor=Subquery(beyond)).aggregate(highest=Max("floor"))["highest"]
        return None if highest is None else (highest, 0)

    return floor


def status_of(given: Mapping[str, Any]) -> Q:
    """Return the condition of the filter `status`."""
    return STATUSES[given["status"]] if "status" in given else Q()


def of_type(event_type: str) -> Q:
    """Return the condition of the filter by the type of the event.

    Asked of each delivery that is looked at: joined, a database may rather read all events of the page's
    range, among which a webhook that gets few has deliveries here and there.
    """
    events = Event.objects.using(conf.current().DATABASE).filter(pk=OuterRef("event_id"))
    return Q(Exact(Subquery(events.values("type")), event_type))


def _asks_for_dead(given: Mapping[str, Any]) -> bool:
    return given.get("status") == "dead" or given.get("state") in DEAD


def _rows() -> QuerySet[Delivery]:
    return Delivery.objects.using(conf.current().DATABASE)
