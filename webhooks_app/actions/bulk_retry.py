"""Bulk retry: the deliveries that some filters select become due again, in the background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, Q, QuerySet

from .. import conf
from ..core.matching import EVENT_TYPE, MAX_PATTERN_LENGTH
from ..core.states import DEAD, ERRORS, PENDING
from ..models import Delivery, Endpoint, Job
from ..pipeline import clock, requeue
from ..pipeline.job_rows import lock_orderings
from ..pipeline.requeue import Place, Waiting
from ..pipeline.retention import retention
from ..pipeline.transactions import Tx
from . import jobs
from .actor import WEBHOOKS_MANAGE, Actor, require
from .eligible import COLUMNS, Eligible
from .enabled import check_enabled
from .faults import Faults
from .job_steps import BATCH, Portion, Written, moment_of
from .key_ranges import walk
from .lacking import RECOVERED
from .payload import has_payload
from .replay_selection import STATUSES as REPLAYED
from .replay_selection import check_window
from .scope import get_endpoint, visible_endpoints
from .sensitivity import require_for_events, withheld

_DEFAULT = Q(state__in=[str(state) for state in RECOVERED], first_delivered_at__isnull=True)
_ALL: Mapping[str, Any] = dict.fromkeys(("status", "error", "event_type", "since", "until"))
_COLUMNS = ("endpoint_id", "state", "lane", *(f"event__{name}" for name in COLUMNS))
STATUSES: Mapping[str, Q] = {
    "dead": REPLAYED["dead"],
    "failed": REPLAYED["failed"],
    **{str(state): Q(state=str(state)) for state in sorted(DEAD)},
}


def bulk_retry(
    actor: Actor,
    *,
    endpoint: Endpoint | None = None,
    status: str | None = None,
    error: str | None = None,
    event_type: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Job:
    """Begin a job that lets every selected delivery begin its schedule anew.

    What the endpoint would not be given today (its filters, expiry, retention) is skipped, and so is what
    belongs to disabled endpoints, unless the one that is named is: then the job fails (`webhook_disabled`).
    Deliveries of sensitive event types whose permission the actor lacks are no part of the selection.

    Args:
        endpoint: only its deliveries; default: those of every endpoint the actor can see.
        status: `dead` (ended, never delivered), `failed` (open, last attempt failed), or the state of an
            ended delivery; default: the dead ones that nobody cancelled.
        error: only those whose last error is this code.
        event_type: only of events of this type.
        since, until: a window of the events' `occurred_at`, `until` excluded.

    Raises:
        InvalidRequest: bad values, or more than a million deliveries.
        Conflict: `webhook_disabled`, the endpoint that is named.
        NotFound: the endpoint is deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`, or what `event_type`, or else the events of `endpoint`,
            take besides.
    """
    asked = {"status": status, "error": error, "event_type": event_type, "since": since, "until": until}
    seen = _look(actor, endpoint, asked)
    newest = Delivery.objects.using(conf.current().DATABASE).aggregate(last=Max("pk"))["last"]
    return jobs.begin(
        actor,
        Job.Kind.BULK_RETRY,
        endpoint=seen.endpoint,
        total=seen.total,
        params={**seen.params, "last": newest or 0},
        action="deliveries.retry_begun",
    )


def retryable(actor: Actor, *, endpoint: Endpoint | None = None, **filters: Any) -> int:
    """Return how many deliveries `bulk_retry` would select by now; arguments and errors are the same."""
    return _look(actor, endpoint, {**_ALL, **filters}).total


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is selected: the endpoint as it is now (None: all), the filters as a job has them, how many."""

    endpoint: Endpoint | None
    params: dict[str, Any]
    total: int


def _look(actor: Actor, endpoint: Endpoint | None, asked: Mapping[str, Any]) -> _Seen:
    require(actor, WEBHOOKS_MANAGE)
    _check(**asked)
    fresh = None if endpoint is None else get_endpoint(actor, endpoint.public_id)
    if fresh is not None:
        check_enabled(fresh.state)
    require_for_events(actor, _named(fresh, asked["event_type"]))
    params: dict[str, Any] = {
        **asked,
        "webhook_id": fresh and fresh.public_id,
        "since": asked["since"] and asked["since"].isoformat(),
        "until": asked["until"] and asked["until"].isoformat(),
        "without": withheld(actor),
    }
    return _Seen(fresh, params, jobs.count(_selected(_scope(actor, fresh), params), "since"))


def _named(endpoint: Endpoint | None, event_type: str | None) -> Sequence[str]:
    """Return the event patterns that the request names; of others the actor gets what it may have."""
    if event_type is not None:
        return [event_type]
    return [] if endpoint is None else endpoint.events


def _check(
    *, status: object, error: object, event_type: object, since: datetime | None, until: datetime | None
) -> None:
    faults = Faults()
    if status is not None and status not in STATUSES:
        faults.add("status", f"must be one of {', '.join(STATUSES)}")
    if error is not None and error not in ERRORS:
        faults.add("error", "must be an error code such as timeout")
    if event_type is not None and not _is_type(event_type):
        faults.add("event_type", "must be an event type such as order.paid")
    check_window(since, until, faults)
    faults.finish()


def _is_type(text: object) -> bool:
    return isinstance(text, str) and len(text) <= MAX_PATTERN_LENGTH and bool(EVENT_TYPE.fullmatch(text))


def _scope(actor: Actor, endpoint: Endpoint | None) -> QuerySet[Delivery]:
    rows = Delivery.objects.using(conf.current().DATABASE)
    if endpoint is not None:
        return rows.filter(endpoint=endpoint)
    return rows.filter(endpoint__in=visible_endpoints(actor))


def _selected(rows: QuerySet[Delivery], params: Mapping[str, Any]) -> QuerySet[Delivery]:
    rows = rows.filter(STATUSES[params["status"]] if params["status"] else _DEFAULT)
    if params["error"]:
        rows = rows.filter(last_error=params["error"])
    if params["event_type"]:
        rows = rows.filter(event__type=params["event_type"])
    if params["without"]:
        rows = rows.exclude(event__type__in=params["without"])
    for name, condition in (("since", "occurred_at__gte"), ("until", "occurred_at__lt")):
        if (moment := moment_of(params, name)) is not None:
            rows = rows.filter(**{condition: moment})
    return rows


class RetrySteps:
    """Walks the deliveries by key."""

    def look(self, alias: str, job: Job) -> Portion:
        """Find the next selected deliveries that may leave today."""
        last = int(job.params["last"])
        rows = _of_job(alias, job)
        if rows is None:
            return Portion((), job.cursor, is_last=True)
        selected = _selected(rows.filter(has_payload("event__")), job.params)
        selected = selected.select_related("event").only(*_COLUMNS)

        def read(low: int, high: int, limit: int) -> list[Delivery]:
            return list(selected.filter(pk__gt=low, pk__lte=high).order_by("pk")[:limit])

        found = walk(read, lambda row: row.pk, after=job.cursor, last=last, limit=BATCH)
        taken = _eligible(alias, found.rows)
        return Portion(taken, found.reached, found.reached >= last, len(found.rows) - len(taken))

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Queue them, endpoint by endpoint; those of deleted ones are skipped.

        Those of disabled ones too, unless the job names its endpoint: then it stops.
        """
        by_endpoint: dict[int, list[Delivery]] = {}
        for row in portion.rows:
            by_endpoint.setdefault(row.endpoint_id, []).append(row)
        written = Written(skipped=portion.skipped + len(portion.rows))
        orderings = lock_orderings(tx, by_endpoint)
        if job.params["webhook_id"] and None in orderings.values():
            return Written(stop="webhook_disabled")
        for endpoint_id, ordering in sorted(orderings.items()):
            if ordering is not None:
                done = _queue(tx, endpoint_id, ordering, by_endpoint[endpoint_id], now=now)
                written.done += done
                written.skipped -= done
                written.wake.add(endpoint_id)
        return written


def _of_job(alias: str, job: Job) -> QuerySet[Delivery] | None:
    """Return the deliveries that the job is about; None when its endpoint is gone."""
    if job.params["webhook_id"]:
        endpoint = jobs.endpoint_of(alias, job)
        return None if endpoint is None else Delivery.objects.using(alias).filter(endpoint=endpoint)
    scope, scope_id = next(
        ((name, key) for name, key in (("tenant", job.tenant_id), ("partner", job.partner_id)) if key),
        ("platform", None),
    )
    actor = Actor(job.actor_kind, job.actor_id, scope, scope_id, job.environment)
    return _scope(actor, None)


def _eligible(alias: str, rows: Sequence[Delivery]) -> list[Delivery]:
    now, kept = clock.db_now(alias), retention(alias)
    endpoints = Endpoint.objects.using(alias).in_bulk({row.endpoint_id for row in rows})
    rules = {key: Eligible(alias, endpoint, now, kept=kept) for key, endpoint in endpoints.items()}
    return [row for row in rows if row.endpoint_id in rules and rules[row.endpoint_id].takes(row.event)]


def _queue(tx: Tx, endpoint_id: int, ordering: str, rows: list[Delivery], *, now: datetime) -> int:
    waiting = [Waiting(row.pk, row.lane) for row in rows if row.state == PENDING]
    places = [Place.of(row.event, ordering, row.pk) for row in rows if row.state != PENDING]
    restarted = requeue.restart(tx, endpoint_id, waiting, now, priority=requeue.BULK)
    return restarted + requeue.queue(tx, endpoint_id, places, priority=requeue.BULK, now=now)
