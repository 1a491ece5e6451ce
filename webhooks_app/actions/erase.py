"""Erase: the payloads of a tenant, an identity or a subject are removed, wherever they are, for good."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Max

from .. import conf
from ..models import Delivery, Event, Job, OutboxEntry
from ..pipeline.erasure import erase_events
from ..pipeline.transactions import Tx
from . import jobs
from .actor import Actor, require_operator
from .endpoint_fields import text
from .faults import Faults
from .job_steps import Portion, Written
from .key_ranges import walk
from .payload import has_payload

BATCH = 100
# An event may have gone to very many endpoints.
DELIVERIES = 5_000
_LENGTHS: Final = {"tenant_id": 128, "identity_id": 128, "subject": 256}


def erase(
    actor: Actor, *, tenant_id: str | None = None, identity_id: str | None = None, subject: str | None = None
) -> Job:
    """Begin a job that removes the payloads of all events that have every given label.

    Gone are bodies, also those of replay copies and of events not yet fanned out, and what receivers
    answered. What stays is that there was an event, its labels, and what became of it. Open deliveries end as
    `dead_lettered` (`event_unavailable`). Repeating it does no harm.

    Raises:
        InvalidRequest: no label, or one that no event can have.
        PermissionDenied: the actor is not the operator.
    """
    total = erasable(actor, tenant_id=tenant_id, identity_id=identity_id, subject=subject)
    labels = _given(tenant_id=tenant_id, identity_id=identity_id, subject=subject)
    return jobs.begin(
        actor,
        Job.Kind.ERASE,
        endpoint=None,
        total=total,
        params=labels,
        action="payloads.erasure_begun",
        target=tenant_id,
        # Their kinds alone: the audit would keep a person's label, or its hash, for good.
        details={"labels": sorted(labels)},
    )


def erasable(actor: Actor, **labels: str | None) -> int:
    """Return how many events with these labels have a payload; labels and errors as for `erase`."""
    require_operator(actor)
    given = _given(**labels)
    faults = Faults()
    for name in given:
        faults.check(_check, name, given[name])
    if not given:
        faults.add("tenant_id", "give at least one of tenant_id, identity_id and subject")
    faults.finish()
    return Event.objects.using(conf.current().DATABASE).filter(has_payload(), **given).count()


def _given(**labels: str | None) -> dict[str, str]:
    return {name: value for name, value in labels.items() if value is not None}


def _check(name: str, value: object) -> None:
    text(name, value, at_most=_LENGTHS[name])


class EraseSteps:
    """Walks the events by key. The bodies go first: a crash in between repeats what is done already."""

    def look(self, alias: str, job: Job) -> Portion:
        """Find the next events and delete their outbox entries, which may be in other databases."""
        if not job.cursor:
            _delete_waiting(job.params)
        last = Event.objects.using(alias).aggregate(last=Max("pk"))["last"] or 0
        rows = Event.objects.using(alias).filter(has_payload(), **job.params)
        rows = rows.only("public_id", "outbox_alias", "outbox_id").order_by("pk")

        def read(low: int, high: int, limit: int) -> list[Event]:
            return list(rows.filter(pk__gt=low, pk__lte=high)[:limit])

        found = walk(read, lambda event: event.pk, after=job.cursor, last=last, limit=BATCH)
        events = _fitting(alias, found.rows)
        reached = events[-1].pk if len(events) < len(found.rows) else found.reached
        _delete_entries(events)
        return Portion(events, reached, reached >= last)

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Remove what the delivery database holds."""
        ended = erase_events(tx, [event.pk for event in portion.rows], now) if portion.rows else []
        return Written(done=len(portion.rows), ended=ended)


def _fitting(alias: str, events: Sequence[Event]) -> Sequence[Event]:
    """Return the first events, as many as one short transaction can do."""
    rows = Delivery.objects.using(alias).filter(event_id__in=[event.pk for event in events])
    counts = dict(rows.values_list("event_id").annotate(Count("pk")).order_by())
    deliveries = 0
    for place, event in enumerate(events):
        deliveries += counts.get(event.pk, 0)
        if deliveries > DELIVERIES and place:
            return events[:place]
    return events


def _delete_entries(events: Sequence[Event]) -> None:
    by_alias: dict[str, list[Event]] = {}
    for event in events:
        if event.outbox_alias is not None:
            by_alias.setdefault(event.outbox_alias, []).append(event)
    for outbox_alias, theirs in by_alias.items():
        # By both: after an outbox was set back, its keys are those of other events.
        OutboxEntry.objects.using(outbox_alias).filter(
            pk__in=[event.outbox_id for event in theirs], event_id__in=[event.public_id for event in theirs]
        ).delete()


def _delete_waiting(labels: Mapping[str, Any]) -> None:
    """Delete entries that no fan-out has taken, also those that were set aside."""
    for outbox_alias in conf.current().OUTBOX_DATABASES:
        rows = OutboxEntry.objects.using(outbox_alias).filter(dispatched_at__isnull=True, **labels)
        rows.delete()
