"""Erase: the payloads of a tenant, an identity or a subject are removed, wherever they are, for good."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from .. import conf
from ..models import Delivery, Event, Job
from ..pipeline.erasure import Erased, Target, erase_events, forget_deliveries
from ..pipeline.job_rows import note
from ..pipeline.transactions import Tx
from . import jobs
from .actor import Actor, require_operator
from .endpoint_fields import text
from .erase_outbox import OutboxUnreachable, count_waiting, delete, empty_outboxes, latest_clock, settle
from .erase_progress import LABELS, Progress
from .faults import Faults
from .job_steps import Portion, Written
from .key_ranges import walk
from .payload import has_payload

BATCH = 100
# An event may have gone to very many endpoints.
DELIVERIES = 5_000
# Seconds between two looks at requests that are under way.
REST = 1.0


def erase(
    actor: Actor, *, tenant_id: str | None = None, identity_id: str | None = None, subject: str | None = None
) -> Job:
    """Begin a job that removes the payloads of all events that have every given label.

    Gone are bodies, also those of replay copies and of events not yet fanned out, and what receivers
    answered. What stays is that there was an event, its labels, and what became of it. Open deliveries end as
    `dead_lettered` (`event_unavailable`). Meant is what was recorded before the job was made; what is
    recorded, or committed, later is new. The job ends when no request with a payload is under way any more.

    A database of the outbox that cannot be reached stops nothing else; the job fails at its end and names it
    (`outbox_unreachable`), and what it holds stays known, for an erasure to come. Repeating it does no harm.

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
        params={**labels, "before": latest_clock().isoformat()},
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
    fanned_out = Event.objects.using(conf.current().DATABASE).filter(has_payload(), **given).count()
    return fanned_out + count_waiting(given)


def _given(**labels: str | None) -> dict[str, str]:
    return {name: value for name, value in labels.items() if value is not None}


def _check(name: str, value: object) -> None:
    text(name, value, at_most=LABELS[name])


class _Row(NamedTuple):
    pk: int
    public_id: str
    tenant_id: str | None
    occurred_at: datetime
    outbox_alias: str | None
    outbox_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portion(Portion):
    """A portion of events; how far the erasure is then, and how many entries no fan-out had taken."""

    progress: Progress
    waiting: int = 0


class EraseSteps:
    """Empties the outboxes, then walks the events by key, then waits for the requests that are under way.

    Outboxes go first, so that nothing more of what is meant is fanned out. In each database a crash repeats
    what is done already.
    """

    def look(self, alias: str, job: Job) -> Portion:
        """Delete the next outbox entries, which may be in other databases, and find the next events."""
        progress = Progress.of(job)
        waiting = empty_outboxes(progress)
        if progress.outboxes:
            return _Portion((), job.cursor, is_last=False, progress=progress, waiting=waiting)
        if progress.last is None:
            progress.last = settle(alias)
        rows = _meant(alias, progress)

        def read(low: int, high: int, limit: int) -> list[_Row]:
            found = rows.filter(pk__gt=low, pk__lte=high).order_by("pk")
            return [_Row(*row) for row in found.values_list(*_Row._fields)[:limit]]

        found = walk(read, lambda event: event.pk, after=job.cursor, last=progress.last, limit=BATCH)
        events = _fitting(alias, found.rows)
        reached = events[-1].pk if len(events) < len(found.rows) else found.reached
        targets = _without_entries(events, progress)
        return _Portion(targets, reached, reached >= progress.last, progress=progress, waiting=waiting)

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Remove what the delivery database holds; at the end also what came of requests meanwhile."""
        if not isinstance(portion, _Portion):
            raise TypeError(portion)
        progress = portion.progress
        erased = erase_events(tx, portion.rows, now) if portion.rows else Erased()
        again = _again(tx, progress.busy, now) if portion.is_last else Erased(busy=progress.busy)
        busy = sorted({*erased.busy, *again.busy})
        note(tx, job.pk, {**progress.params(), "busy": busy})
        written = Written(portion.waiting + erased.payloads, sum(each.is_away for each in portion.rows))
        written.ended = [*erased.ended, *again.ended]
        if portion.is_last:
            written.rest = REST if busy else None
            written.stop = "" if busy else progress.error()
        return written


def _meant(alias: str, progress: Progress) -> QuerySet[Event]:
    """Return the events to look at: copies are as old as what they repeat."""
    events = Event.objects.using(alias)
    later = events.filter(pk=OuterRef("replay_of"), recorded_at__gt=progress.before)
    copies = Q(replay_of__isnull=False) & ~Exists(later)
    return events.filter(Q(recorded_at__lte=progress.before) | copies, **progress.labels)


def _fitting(alias: str, events: Sequence[_Row]) -> Sequence[_Row]:
    """Return the first events, as many as one short transaction can do."""
    rows = Delivery.objects.using(alias).filter(event_id__in=[event.pk for event in events])
    counts = dict(rows.values_list("event_id").annotate(Count("pk")).order_by())
    deliveries = 0
    for place, event in enumerate(events):
        deliveries += counts.get(event.pk, 0)
        if deliveries > DELIVERIES and place:
            return events[:place]
    return events


def _without_entries(events: Sequence[_Row], progress: Progress) -> list[Target]:
    """Delete the entries that these events point to, as far as they can be reached."""
    by_alias: dict[str, list[_Row]] = {}
    for event in events:
        if event.outbox_alias is not None:
            by_alias.setdefault(event.outbox_alias, []).append(event)
    for outbox_alias in by_alias.keys() - progress.unreachable.keys():
        rows = by_alias[outbox_alias]
        try:
            delete(outbox_alias, [(row.outbox_id or 0, row.public_id) for row in rows])
        except OutboxUnreachable as error:
            progress.unreachable[outbox_alias] = error.why
    return [
        Target(row.pk, row.tenant_id, row.occurred_at, is_away=row.outbox_alias in progress.unreachable)
        for row in events
    ]


def _again(tx: Tx, busy: Collection[int], now: datetime) -> Erased:
    """Come back to deliveries that were being sent."""
    keys = sorted(busy)
    if not keys:
        return Erased()
    again = forget_deliveries(tx, keys[:DELIVERIES], now)
    again.busy += keys[DELIVERIES:]
    return again
