"""Jobs: recovery in the background, begun by a row; workers take it batch by batch."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from .. import conf
from ..exceptions import Conflict, InvalidRequest
from ..ids import new_id
from ..models import Endpoint, Job
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require, require_operator
from .scope import get_job

OPEN = (Job.State.QUEUED, Job.State.RUNNING)
MAX_TOTAL = 1_000_000
_NOTHING: Mapping[str, Any] = {}


def cancel_job(actor: Actor, job: Job) -> Job:
    """End a job after the batch that is being worked on; what it has queued stays queued.

    Raises:
        Conflict: `job_ended`, unless it was cancelled before.
        NotFound: `job_not_found`.
        PermissionDenied: without `webhooks:manage`, or a key of one environment for a job of both.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    fresh = get_job(actor, job.public_id)
    if fresh.environment is None and actor.environment is not None:
        require_operator(actor)
    with transaction.atomic(using=alias):
        now = clock.db_now(alias)
        rows = Job.objects.using(alias).filter(pk=fresh.pk, state__in=OPEN)
        forget_labels(rows.filter(unclaimed(now)))
        ended = rows.filter(unclaimed(now)).update(
            state=Job.State.CANCELLED, cancel_requested_at=now, finished_at=now, claimed_until=None
        )
        if ended or rows.update(cancel_requested_at=now):
            audit.record(actor, "job.cancelled", fresh, now=now)
        fresh.refresh_from_db(using=alias)
        if ended and fresh.endpoint_id is not None:
            # Its last batches may owe a wake, which would have come with its end.
            doorbell.ring_on_commit(alias, endpoint_ids=[fresh.endpoint_id])
    if fresh.state not in (*OPEN, Job.State.CANCELLED):
        raise Conflict("the job has ended", code="job_ended", fix="Only open jobs can be cancelled.")
    return fresh


def forget_labels(ending: QuerySet[Job]) -> None:
    """Remove from erasures that end what they looked for: it may be what was to be forgotten."""
    ending.filter(kind=Job.Kind.ERASE).update(params={})


def unclaimed(now: datetime) -> Q:
    """Return the condition that no worker is at the job at `now`."""
    return Q(claimed_until__isnull=True) | Q(claimed_until__lte=now)


def count(rows: QuerySet[Any], path: str) -> int:
    """Return how many rows a job is about. Raises InvalidRequest at `path` for more than one job may do."""
    total = rows.order_by()[: MAX_TOTAL + 1].count()
    if total > MAX_TOTAL:
        raise InvalidRequest([(path, f"selects more than {MAX_TOTAL:,}; choose less")])
    return total


def endpoint_of(alias: str, job: Job) -> Endpoint | None:
    """Return the endpoint that a job is about, unless it is deleted."""
    rows = Endpoint.objects.using(alias).filter(deleted_at__isnull=True)
    return rows.filter(pk=job.endpoint_id or 0).first()


def begin(
    actor: Actor,
    kind: Job.Kind,
    *,
    endpoint: Endpoint | None,
    total: int | None,
    params: Mapping[str, Any],
    action: str,
    target: str | None = None,
    details: Mapping[str, Any] = _NOTHING,
) -> Job:
    """Write the row of a job and its audit; the commit rings for a worker.

    Args:
        endpoint: the job is about; None: about whatever the actor can see.
        total: as counted, at most MAX_TOTAL; None where counting would keep others waiting.
        params: as JSON; what the worker goes by.
        action: of the audit, `webhook.recovery_begun`.
        target: of the audit, the id of a tenant; None: the endpoint, or else the job.
        details: of the audit, besides the job and its total.
    """
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        now = clock.db_now(alias)
        job = Job.objects.using(alias).create(
            public_id=new_id("job"),
            kind=kind,
            endpoint=endpoint,
            params=dict(params),
            total=total,
            actor_kind=actor.kind,
            actor_id=actor.id,
            request_id=actor.request_id,
            created_at=now,
            **_owner(actor, endpoint),
        )
        told = {"job": job.public_id, "total": total, **details}
        audit.record(actor, action, target or endpoint or job, details=told, now=now)
        doorbell.ring_on_commit(alias, jobs=True)
    return job


def _owner(actor: Actor, endpoint: Endpoint | None) -> dict[str, str | None]:
    if endpoint is not None:
        return {
            "tenant_id": endpoint.tenant_id,
            "partner_id": endpoint.partner_id,
            "environment": endpoint.environment,
        }
    owner = {} if actor.scope == "platform" else {f"{actor.scope}_id": actor.scope_id}
    return {**owner, "environment": actor.environment}
