"""Prune: deliveries with their attempts, test attempts, and endpoints that are deleted and empty."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from ..core.states import EXPIRED, PENDING
from ..models import Attempt, Delivery, Endpoint, Event
from .delete_endpoint import DELETED
from .ending import BATCH, End, end_open, unleased
from .sweep import Sweep

TOO_OLD = End(EXPIRED, "event_unavailable")
# A fan-out that read the endpoint just before it was deleted may still add deliveries.
SETTLED = timedelta(days=1)


class _Row(NamedTuple):
    pk: int
    endpoint_id: int
    event_id: int
    state: str
    created_at: datetime
    occurred_at: datetime
    finished_at: datetime | None


def end_orphans(sweep: Sweep) -> None:
    """End what is still open at deleted endpoints."""
    open_rows = Delivery.objects.using(sweep.alias).filter(endpoint_id=OuterRef("pk"), state=PENDING)
    deleted = Endpoint.objects.using(sweep.alias).filter(Exists(open_rows), deleted_at__isnull=False)
    for endpoint_id in deleted.order_by("pk").values_list("pk", flat=True):
        while sweep.goes_on() and end_open(sweep.alias, endpoint_id, DELETED) == BATCH:
            pass


def prune_deliveries(sweep: Sweep) -> None:
    """Delete deliveries that ended before the cutoff, and end open ones whose event is past its retention."""
    for rows in _chunks(sweep):
        events = {row.event_id for row in rows}
        tenants = dict(Event.objects.using(sweep.alias).filter(pk__in=events).values_list("pk", "tenant_id"))
        cutoffs = {row.pk: sweep.cutoff(tenants.get(row.event_id)) for row in rows}
        _delete(sweep, [r.pk for r in rows if r.finished_at is not None and r.finished_at <= cutoffs[r.pk]])
        _end(sweep, [r for r in rows if r.state == PENDING and r.occurred_at <= cutoffs[r.pk]])


def _chunks(sweep: Sweep) -> Iterator[list[_Row]]:
    """Walk the deliveries by key, oldest first, up to the first that was made after every cutoff."""
    last = 0
    while sweep.goes_on():
        rows = Delivery.objects.using(sweep.alias).filter(pk__gt=last).order_by("pk")
        chunk = [_Row(*row) for row in rows.values_list(*_Row._fields)[: sweep.batch]]
        if not chunk:
            return
        yield chunk
        last = chunk[-1].pk
        if len(chunk) < sweep.batch or chunk[-1].created_at > sweep.newest:
            return


def _delete(sweep: Sweep, keys: list[int]) -> None:
    if not keys:
        return
    with transaction.atomic(using=sweep.alias):
        # An ended one may be on its way once more, because somebody resends it.
        rows = Delivery.objects.using(sweep.alias).filter(unleased(sweep.now), pk__in=keys)
        rows = rows.exclude(state=PENDING)
        locked = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True))
        attempts = Attempt.objects.using(sweep.alias).filter(delivery_id__in=locked)
        sweep.counts["attempts"] += attempts.delete()[0]
        sweep.counts["deliveries"] += Delivery.objects.using(sweep.alias).filter(pk__in=locked).delete()[0]


def _end(sweep: Sweep, rows: list[_Row]) -> None:
    by_endpoint: dict[int, list[int]] = {}
    for row in rows:
        by_endpoint.setdefault(row.endpoint_id, []).append(row.pk)
    for endpoint_id in sorted(by_endpoint):
        while end_open(sweep.alias, endpoint_id, TOO_OLD, only=by_endpoint[endpoint_id]) == BATCH:
            pass


def prune_tests(sweep: Sweep) -> None:
    """Delete test attempts, which belong to no delivery, by their age.

    An attempt's key begins with its time, so the walk ends at the cutoff instead of at the end of the table.
    """
    last, bound = UUID(int=0), UUID(int=int(sweep.newest.timestamp() * 1000) << 80)
    while sweep.goes_on():
        rows = Attempt.objects.using(sweep.alias).filter(delivery__isnull=True, pk__gt=last, pk__lt=bound)
        columns = rows.order_by("pk").values_list("pk", "created_at", "endpoint__tenant_id")
        chunk = list(columns[: sweep.batch])
        if not chunk:
            return
        last = chunk[-1][0]
        keys = [pk for pk, created_at, tenant_id in chunk if created_at <= sweep.cutoff(tenant_id)]
        sweep.counts["attempts"] += Attempt.objects.using(sweep.alias).filter(pk__in=keys).delete()[0]


def prune_endpoints(sweep: Sweep) -> None:
    """Delete the rows of endpoints that were deleted and of which nothing is left."""
    if not sweep.goes_on():
        return
    of_endpoint = {"endpoint_id": OuterRef("pk")}
    with transaction.atomic(using=sweep.alias):
        rows = Endpoint.objects.using(sweep.alias).filter(
            ~Exists(Delivery.objects.using(sweep.alias).filter(**of_endpoint)),
            ~Exists(Attempt.objects.using(sweep.alias).filter(**of_endpoint)),
            deleted_at__lte=sweep.now - SETTLED,
        )
        keys = list(
            rows.select_for_update(skip_locked=True)
            .order_by("pk")
            .values_list("pk", flat=True)[: sweep.batch]
        )
        Endpoint.objects.using(sweep.alias).filter(pk__in=keys).delete()
        sweep.counts["endpoints"] += len(keys)
