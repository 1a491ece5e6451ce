"""Prune: events past their retention, and the outbox entries that hold their bodies."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from ..core.states import PENDING
from ..models import Delivery, Event, OutboxEntry
from .sweep import Sweep


class _Row(NamedTuple):
    pk: int
    occurred_at: datetime
    outbox_alias: str | None
    outbox_id: int | None


def prune_events(sweep: Sweep) -> None:
    """Delete each tenant's events from before its cutoff, unless deliveries of them are open."""
    for tenant_id in _tenants(sweep):
        for rows in _chunks(sweep, tenant_id):
            _delete(sweep, _without_body(sweep, rows))


def _tenants(sweep: Sweep) -> Iterator[str | None]:
    """Yield every tenant that has events, hopping through the index from one to the next; None is one too."""
    yield None
    events = Event.objects.using(sweep.alias).order_by("tenant_id").values_list("tenant_id", flat=True)
    tenant_id = events.filter(tenant_id__isnull=False).first()
    while tenant_id is not None:
        yield tenant_id
        tenant_id = events.filter(tenant_id__gt=tenant_id).first()


def _chunks(sweep: Sweep, tenant_id: str | None) -> Iterator[list[_Row]]:
    """Walk a tenant's old events in the order of the index (tenant, occurred_at)."""
    rows = Event.objects.using(sweep.alias).filter(
        ~Exists(_deliveries(sweep).filter(state=PENDING)),
        tenant_id=tenant_id,
        occurred_at__lte=sweep.cutoff(tenant_id),
        fanned_out_at__isnull=False,
    )
    after = Q()
    while not sweep.is_over():
        found = rows.filter(after).order_by("occurred_at", "pk").values_list(*_Row._fields)[: sweep.batch]
        chunk = [_Row(*row) for row in found]
        if not chunk:
            return
        yield chunk
        moment, pk = chunk[-1].occurred_at, chunk[-1].pk
        after = Q(occurred_at__gt=moment) | Q(occurred_at=moment, pk__gt=pk)


def _deliveries(sweep: Sweep) -> QuerySet[Delivery]:
    return Delivery.objects.using(sweep.alias).filter(event_id=OuterRef("pk"))


def _without_body(sweep: Sweep, rows: list[_Row]) -> list[int]:
    """Delete the dispatched outbox entries of these events; return the events that have none any more.

    The body goes first: should we stop in between, the event is still there for the next run.
    """
    by_alias: dict[str, list[_Row]] = {}
    bare = [row.pk for row in rows if row.outbox_alias is None]
    for row in rows:
        if row.outbox_alias is not None:
            by_alias.setdefault(row.outbox_alias, []).append(row)
    for outbox_alias, entries in by_alias.items():
        keys = [row.outbox_id for row in entries]
        outbox = OutboxEntry.objects.using(outbox_alias).filter(pk__in=keys)
        sweep.counts["outbox"] += outbox.filter(dispatched_at__isnull=False).delete()[0]
        left = set(outbox.values_list("pk", flat=True))
        bare += [row.pk for row in entries if row.outbox_id not in left]
    return bare


def _delete(sweep: Sweep, keys: list[int]) -> None:
    """Delete events that no delivery points to; of the others only the payload."""
    if not keys:
        return
    with transaction.atomic(using=sweep.alias):
        rows = Event.objects.using(sweep.alias).filter(pk__in=keys)
        sweep.counts["events"] += rows.filter(~Exists(_deliveries(sweep))).delete()[0]
        kept = rows.filter(Q(body__isnull=False) | Q(outbox_id__isnull=False))
        kept.update(body=None, outbox_alias=None, outbox_id=None)
