"""What waits at an endpoint; every question reads a bounded part of an index, however much waits."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from ..core.states import PENDING
from ..models import Delivery, EndpointState

MAX_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Backlog:
    """Open deliveries, counted up to MAX_COUNTED (``more``: there are more than that).

    ``seconds`` is how long the one that has been due longest waits by now; 0 when none is due.
    """

    deliveries: int
    more: bool
    seconds: float


def backlog(alias: str, endpoint_id: int, now: datetime) -> Backlog:
    """Return what is open at an endpoint, retries that wait for their time included; two queries."""
    rows = Delivery.objects.using(alias).filter(endpoint_id=endpoint_id, state=PENDING)
    # Asked for in the order of the index: a plan that reads all of them would have to sort them.
    found = len(rows.order_by("priority", "due_at", "id").values_list("priority")[: MAX_COUNTED + 1])
    return Backlog(min(found, MAX_COUNTED), found > MAX_COUNTED, backlog_seconds(alias, endpoint_id, now))


def backlog_seconds(alias: str, endpoint_id: int, now: datetime) -> float:
    """Return how long the delivery that has been due longest waits, in seconds; 0 when none is due."""
    # The index has the priorities apart, so each is asked for its first.
    firsts = {f"first_{int(each)}": Subquery(_first(alias, each)) for each in Delivery.Priority}
    rows: Iterable[tuple[datetime | None, ...]] = (
        EndpointState.objects.using(alias).filter(pk=endpoint_id).annotate(**firsts).values_list(*firsts)
    )
    due = [moment for row in rows for moment in row if moment is not None and moment <= now]
    return (now - min(due)).total_seconds() if due else 0.0


def _first(alias: str, priority: Delivery.Priority) -> QuerySet[Delivery, Any]:
    rows = Delivery.objects.using(alias).filter(
        endpoint_id=OuterRef("pk"), state=PENDING, priority=priority, due_at__isnull=False
    )
    return rows.order_by("due_at", "id").values("due_at")[:1]


def is_delivering(alias: str, endpoint_id: int, now: datetime) -> bool:
    """Whether somebody is sending to the endpoint: a claim on one of its deliveries has not lapsed."""
    return bool(delivering_among(alias, [endpoint_id], now))


def delivering_among(alias: str, endpoint_ids: Collection[int], now: datetime) -> set[int]:
    """Return the endpoints to which somebody is sending; one query."""
    claimed = Delivery.objects.using(alias).filter(
        endpoint_id=OuterRef("pk"), lease_token__isnull=False, lease_until__gte=now
    )
    rows = EndpointState.objects.using(alias).filter(Exists(claimed), pk__in=endpoint_ids)
    return set(rows.values_list("pk", flat=True))
