"""Doctor: whether work flows: outbox entries that wait or were set aside, and the tick."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery

from ...conf import current
from ...core.states import PENDING
from ...models import Delivery, Endpoint, EndpointState, Job, OutboxEntry, PipelineLock
from ...pipeline import clock, tick
from .database import aliases
from .finding import Finding, failed, ok, warning

WAIT_WARNING = timedelta(seconds=30)
WAIT_FAILURE = timedelta(minutes=5)
# Twelve ticks at their interval of five seconds.
TICK_FAILURE = timedelta(seconds=60)
# A job whose worker died stands still for a minute.
JOBS_FAILURE = timedelta(minutes=3)

_WORKERS = "Start the workers: celery worker on the queue of QUEUE_NAME and celery beat; or webhooks_run."


def check_outbox() -> Iterator[Finding]:
    """Tell how long the oldest entry has waited for its fan-out."""
    for alias in current().OUTBOX_DATABASES:
        subject = f"outbox {alias}"
        waiting = OutboxEntry.objects.using(alias).filter(dispatched_at=None, set_aside_at=None)
        # Not the one with the lowest key: what waits is in no index by key.
        oldest = waiting.aggregate(oldest=Min("recorded_at"))["oldest"]
        age = timedelta(0) if oldest is None else clock.db_now(alias) - oldest
        message = f"the oldest waiting event was recorded {age.total_seconds():.0f} s ago"
        if oldest is None:
            yield ok(subject, "no event waits")
        elif age > WAIT_FAILURE:
            yield failed(subject, message, _WORKERS)
        elif age > WAIT_WARNING:
            yield warning(subject, message, _WORKERS)
        else:
            yield ok(subject, message)


def check_set_aside() -> Iterator[Finding]:
    """Count the entries whose fan-out failed three times."""
    for alias in aliases():
        rows = OutboxEntry.objects.using(alias).filter(dispatched_at=None, set_aside_at__isnull=False)
        count = rows.count()
        if count:
            first = rows.order_by("pk").values_list("event_id", flat=True).first()
            message = f"{count} events were set aside after three failures, the first is {first}"
            fix = "The log says why (search for the id). Mend the cause, then release them in the admin."
            yield failed(f"outbox {alias}", message, fix)
        else:
            yield ok(f"outbox {alias}", "no event was set aside")


def check_due() -> Iterator[Finding]:
    """Tell how long the delivery that is due for longest has waited for its request."""
    now = clock.db_now(current().DATABASE)
    found = [row for priority in Delivery.Priority.values if (row := _longest_due(priority, now))]
    if not found:
        yield ok("deliveries", "none is overdue")
        return
    due_at, public_id = min(found)
    message = (
        f"the oldest one that is due was to leave {(now - due_at).total_seconds():.0f} s ago, to {public_id}"
    )
    if now - due_at > WAIT_WARNING:
        yield warning(
            "deliveries", message, f"{_WORKERS} If they run, the receiver is too slow for its events."
        )
    else:
        yield ok("deliveries", message)


def _longest_due(priority: int, now: datetime) -> tuple[datetime, str] | None:
    """Ask endpoint by endpoint, which is what the index answers without reading the heap of a busy one."""
    alias = current().DATABASE
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=now)
    due: QuerySet[Delivery] = Delivery.objects.using(alias).filter(
        free, endpoint_id=OuterRef("endpoint_id"), state=PENDING, priority=priority, due_at__lte=now
    )
    ready = Q(hold_until__isnull=True) | Q(hold_until__lte=now)
    states = EndpointState.objects.using(alias).filter(ready, enabled=True, paused_at__isnull=True)
    oldest = Subquery(due.order_by("due_at").values("due_at")[:1])
    rows = states.annotate(oldest=oldest).filter(oldest__isnull=False).order_by("oldest")
    return rows.annotate(whk=F("endpoint__public_id")).values_list("oldest", "whk").first()


def check_tick() -> Iterator[Finding]:
    """Tell when the tick, which finds what lost hints left behind, was last seen."""
    alias = current().DATABASE
    seen = PipelineLock.objects.using(alias).filter(name=tick.LOCK).values_list("value", flat=True).first()
    if not seen:
        yield failed("tick", "was never seen", _WORKERS)
        return
    age = clock.db_now(alias) - datetime.fromtimestamp(seen, UTC)
    message = f"last seen {max(0.0, age.total_seconds()):.0f} s ago"
    yield failed("tick", message, _WORKERS) if age > TICK_FAILURE else ok("tick", message)


def check_jobs() -> Iterator[Finding]:
    """Tell for how long no job has moved. They take turns: where somebody works on one, all of them move."""
    settings = current()
    jobs = Job.objects.using(settings.DATABASE)
    is_open = jobs.filter(state__in=[Job.State.QUEUED, Job.State.RUNNING])
    found = is_open.aggregate(count=Count("pk"), first=Min("created_at"), claimed=Max("claimed_until"))
    if not found["count"]:
        yield ok("jobs", "none is open")
        return
    signs = (found["first"], found["claimed"], jobs.aggregate(last=Max("finished_at"))["last"])
    still = clock.db_now(settings.DATABASE) - max(sign for sign in signs if sign is not None)
    message = f"{found['count']} are open, and none has moved for {max(0.0, still.total_seconds()):.0f} s"
    queue = settings.BULK_QUEUE_NAME or settings.QUEUE_NAME
    fix = f"Start a celery worker on the queue {queue}, and celery beat; or webhooks_run."
    yield failed("jobs", message, fix) if still > JOBS_FAILURE else ok("jobs", message)


def check_endpoints() -> Iterator[Finding]:
    """Name endpoints that the sender itself disabled."""
    alias = current().DATABASE
    alive = Endpoint.objects.using(alias).filter(deleted_at__isnull=True)
    reasons = (EndpointState.DisabledReason.FAILING, EndpointState.DisabledReason.GONE)
    lost = alive.filter(state__enabled=False, state__disabled_reason__in=reasons)
    count = lost.count()
    if count:
        first = lost.order_by("pk").values_list("public_id", flat=True).first()
        message = f"{count} of {alive.count()} were disabled because they failed, such as {first}"
        yield warning("webhooks", message, "Ask their owners to mend them, then enable and replay.")
    else:
        yield ok("webhooks", f"none of {alive.count()} was disabled for failing")
