"""Prune: events past their retention, and the outbox entries that hold their bodies."""

from collections.abc import Iterator
from datetime import datetime
from itertools import takewhile
from random import randint
from typing import NamedTuple

from django.db import transaction
from django.db.models import Exists, Max, Min, OuterRef, Q, QuerySet

from ..core.states import PENDING
from ..models import Delivery, Event, OutboxEntry
from .payload import has_payload
from .sweep import Sweep


class _Row(NamedTuple):
    pk: int
    occurred_at: datetime
    outbox_alias: str | None
    outbox_id: int | None


def prune_events(sweep: Sweep) -> None:
    """Delete each tenant's events from before its cutoff, unless deliveries of them are open."""
    rows: list[_Row] = []
    for tenant_id in takewhile(lambda _: not sweep.cut_short, _tenants(sweep)):
        for chunk in _chunks(sweep, tenant_id):
            rows += chunk
            if len(rows) >= sweep.batch:
                _delete(sweep, _without_body(sweep, rows))
                rows = []
    _delete(sweep, _without_body(sweep, rows))


def _tenants(sweep: Sweep) -> Iterator[str | None]:
    """Yield every tenant that has events, hopping through the index from one to the next; None is one too.

    It begins anywhere, so that runs that are cut short do not leave the same tenants out each time.
    """
    yield None
    events = Event.objects.using(sweep.alias).filter(tenant_id__isnull=False).order_by("tenant_id")
    pivot = _any_tenant(sweep)
    for part in (events.filter(tenant_id__gte=pivot), events.filter(tenant_id__lt=pivot)):
        tenant_id = part.values_list("tenant_id", flat=True).first()
        while tenant_id is not None:
            yield tenant_id
            tenant_id = part.filter(tenant_id__gt=tenant_id).values_list("tenant_id", flat=True).first()


def _any_tenant(sweep: Sweep) -> str:
    events = Event.objects.using(sweep.alias).order_by("pk")
    ends = events.aggregate(low=Min("pk"), high=Max("pk"))
    found = events.filter(pk__gte=randint(ends["low"] or 0, ends["high"] or 0)).first()
    return (found and found.tenant_id) or ""


def _chunks(sweep: Sweep, tenant_id: str | None) -> Iterator[list[_Row]]:
    """Walk a tenant's old events in the order of the index (tenant, occurred_at)."""
    rows = Event.objects.using(sweep.alias).filter(
        ~Exists(_deliveries(sweep).filter(state=PENDING)),
        tenant_id=tenant_id,
        occurred_at__lte=sweep.cutoff(tenant_id),
        fanned_out_at__isnull=False,
    )
    after = Q()
    while sweep.goes_on():
        found = rows.filter(after).order_by("occurred_at", "pk").values_list(*_Row._fields)[: sweep.batch]
        chunk = [_Row(*row) for row in found]
        if chunk:
            yield chunk
        if len(chunk) < sweep.batch:
            return
        moment, pk = chunk[-1].occurred_at, chunk[-1].pk
        # Said twice: a database seeks to the first condition, and filters by the second.
        after = Q(occurred_at__gte=moment) & (Q(occurred_at__gt=moment) | Q(pk__gt=pk))


def _deliveries(sweep: Sweep) -> QuerySet[Delivery]:
    return Delivery.objects.using(sweep.alias).filter(event_id=OuterRef("pk"))


def _without_body(sweep: Sweep, rows: list[_Row]) -> list[int]:
    """Delete the dispatched outbox entries of these events; return the events that have none any more.

    The body goes first: should we stop in between, the event is still there for the next run.
    """
    by_alias: dict[str, dict[int, int]] = {}
    for row in rows:
        if row.outbox_alias is not None and row.outbox_id is not None:
            by_alias.setdefault(row.outbox_alias, {})[row.outbox_id] = row.pk
    bare = [row.pk for row in rows if row.outbox_id is None]
    for outbox_alias, entries in by_alias.items():
        outbox = OutboxEntry.objects.using(outbox_alias).filter(pk__in=list(entries))
        sweep.counts["outbox"] += outbox.filter(dispatched_at__isnull=False).delete()[0]
        left = set(outbox.values_list("pk", flat=True))
        bare += [pk for outbox_id, pk in entries.items() if outbox_id not in left]
    return bare


def _delete(sweep: Sweep, keys: list[int]) -> None:
    """Delete events that no delivery points to; of the others only the payload."""
    if not keys:
        return
    with transaction.atomic(using=sweep.alias):
        rows = Event.objects.using(sweep.alias).filter(pk__in=keys)
        sweep.counts["events"] += rows.filter(~Exists(_deliveries(sweep))).delete()[0]
        kept = rows.filter(has_payload())
        kept.update(body=None, outbox_alias=None, outbox_id=None)
