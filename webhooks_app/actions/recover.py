"""Recover: everything an endpoint lacks since a moment becomes due again, in the background."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from .. import conf
from ..models import Endpoint, Event, Job
from ..pipeline import clock, requeue
from ..pipeline.job_rows import lock_orderings
from ..pipeline.requeue import Place
from ..pipeline.transactions import Tx
from . import jobs
from .actor import WEBHOOKS_MANAGE, Actor, require
from .eligible import COLUMNS, Eligible
from .enabled import check_enabled
from .faults import Faults
from .job_steps import BATCH, Portion, Written, moment_of
from .key_ranges import walk
from .lacking import RECOVERED, Window, delivery_key, lacking
from .payload import has_payload
from .replay_selection import check_window
from .scope import get_endpoint
from .sensitivity import require_for_events


def recover(actor: Actor, endpoint: Endpoint, *, since: datetime, until: datetime | None = None) -> Job:
    """Begin a job that queues what the endpoint lacks of the events that occurred since then.

    That is deliveries that died and were never delivered, unless somebody cancelled them, and events of the
    endpoint's scope and today's filters that it has no delivery of, such as those from while it was disabled
    and from before it was created. Each begins its schedule anew. Events that are expired or past their
    retention never leave again.

    Args:
        since: of `occurred_at`.
        until: before which; default: all that is recorded by now.

    Raises:
        InvalidRequest: bad values, or more than a million events.
        Conflict: `webhook_disabled`.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`, or what sensitive event types take besides.
    """
    require(actor, WEBHOOKS_MANAGE)
    _check(since, until)
    return _begin(actor, _look(actor, endpoint, since=since, until=until, path="since"))


def replay_from_earliest(actor: Actor, endpoint: Endpoint, *, total: int | None = None) -> Job:
    """Begin a job that queues every retained event the endpoint may have and lacks.

    Args:
        total: as `count_from_earliest` has counted; None: counted here.

    Raises:
        InvalidRequest: naming `from`, for more than a million events.
        Conflict, NotFound, PermissionDenied: as `recover`.
    """
    require(actor, WEBHOOKS_MANAGE)
    return _begin(actor, _look(actor, endpoint, since=None, until=None, path="from", total=total))


def count_from_earliest(endpoint: Endpoint) -> int:
    """Return how many retained events an endpoint may have that is yet to be registered.

    It may read a million, so call it outside of a transaction that others wait for.

    Raises:
        InvalidRequest: naming `from`, for more than a million events.
    """
    alias = conf.current().DATABASE
    eligible = Eligible(alias, endpoint, clock.db_now(alias))
    return _count(eligible, endpoint, Window.within(eligible, None, None), "from")


def recoverable(actor: Actor, endpoint: Endpoint, *, since: datetime, until: datetime | None = None) -> int:
    """Return how many events `recover` would queue by now, at most; arguments and errors are the same."""
    require(actor, WEBHOOKS_MANAGE)
    _check(since, until)
    return _look(actor, endpoint, since=since, until=until, path="since").total


def _check(since: object, until: object) -> None:
    faults = Faults()
    if since is None:
        faults.add("since", "must be given")
    check_window(since, until, faults)
    faults.finish()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The endpoint as it is now, and what it lacks in a window."""

    endpoint: Endpoint
    window: Window
    total: int


def _look(
    actor: Actor,
    endpoint: Endpoint,
    *,
    since: datetime | None,
    until: datetime | None,
    path: str,
    total: int | None = None,
) -> _Seen:
    alias = conf.current().DATABASE
    fresh = get_endpoint(actor, endpoint.public_id)
    require_for_events(actor, fresh.events)
    check_enabled(fresh.state)
    eligible = Eligible(alias, fresh, clock.db_now(alias))
    # The clocks of those who emit may be ahead: what is recorded later, the last key leaves out.
    window = Window.within(eligible, since, until)
    return _Seen(fresh, window, _count(eligible, fresh, window, path) if total is None else total)


def _count(eligible: Eligible, endpoint: Endpoint, window: Window, path: str) -> int:
    rows = lacking(eligible.rows().filter(has_payload()), endpoint, window, states=RECOVERED)
    return jobs.count(rows, path)


def _begin(actor: Actor, seen: _Seen) -> Job:
    window = seen.window
    newest = Event.objects.using(conf.current().DATABASE).aggregate(last=Max("pk"))["last"]
    return jobs.begin(
        actor,
        Job.Kind.RECOVER,
        endpoint=seen.endpoint,
        total=seen.total,
        params={
            "since": window.since.isoformat(),
            "until": window.until and window.until.isoformat(),
            "last": newest or 0,
        },
        action="webhook.recovery_begun",
    )


class RecoverSteps:
    """Walks the events by key, which is the order in which they were recorded."""

    def look(self, alias: str, job: Job) -> Portion:
        """Find the next events that the endpoint lacks."""
        last = int(job.params["last"])
        endpoint = jobs.endpoint_of(alias, job)
        if endpoint is None:
            return Portion((), job.cursor, is_last=True)
        eligible = Eligible(alias, endpoint, clock.db_now(alias))
        # Its beginning may have left the retention since.
        window = Window.within(eligible, moment_of(job.params, "since"), moment_of(job.params, "until"))
        rows = eligible.rows().filter(has_payload())

        def read(low: int, high: int, limit: int) -> list[Event]:
            found = lacking(rows, endpoint, window, states=RECOVERED, between=(low, high))
            return list(found.only(*COLUMNS).order_by("pk")[:limit])

        found = walk(read, lambda event: event.pk, after=job.cursor, last=last, limit=BATCH)
        taken = [event for event in found.rows if eligible.takes(event)]
        return Portion(taken, found.reached, found.reached >= last, len(found.rows) - len(taken))

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Queue them. A disabled endpoint stops the job; of a deleted one everything is skipped."""
        key = job.endpoint_id or 0
        orderings = lock_orderings(tx, [key])
        if key not in orderings:
            return Written()
        ordering = orderings[key]
        if ordering is None:
            return Written(stop="webhook_disabled")
        places = [Place.of(event, ordering, delivery_key(event)) for event in portion.rows]
        queued = requeue.queue(tx, key, places, priority=requeue.BULK, now=now)
        skipped = portion.skipped + len(places) - queued
        return Written(queued, skipped, {key} if queued else set())
