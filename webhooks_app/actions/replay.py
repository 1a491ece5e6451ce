"""Replay: events of the past become due at an endpoint again, whatever became of them before."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connections, transaction

from .. import conf
from ..core.states import PENDING, move
from ..exceptions import Conflict
from ..models import Delivery, Endpoint, Event
from ..pipeline import clock, doorbell
from ..pipeline.locks import next_positions
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .locking import lock_endpoint, lock_state
from .replay_selection import STATUSES, Request, checked, select

_CHUNK = 200


def replay(
    actor: Actor,
    endpoint: Endpoint,
    *,
    event_ids: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    status: str | None = None,
) -> int:
    """Make events due at the endpoint now and return how many.

    Ended deliveries begin their schedule anew, with the same `webhook-id`; open ones are due at once unless
    they are being sent; events the endpoint never had get their first delivery. Only events that the
    endpoint's scope, filters and retention admit are selected; others are left out in silence.

    Args:
        event_ids: at most 100 ids; or
        since, until: a window of `occurred_at`, `until` excluded, that selects at most 1,000 events;
        status: of the window only `dead` (ended, never delivered), `failed` (open, last attempt failed) or
            `succeeded` (delivered before).

    Raises:
        InvalidRequest: neither or both ways to choose, bad values, or too many events.
        Conflict: `webhook_disabled`.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    request = checked(event_ids, since, until, status)
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        fresh = lock_endpoint(actor, endpoint)
        # Selecting may take a while; only what follows keeps the path from this endpoint.
        events = select(alias, fresh, request, clock.db_now(alias))
        if not lock_state(alias, fresh.pk).enabled:
            raise Conflict("the webhook is disabled", code="webhook_disabled", fix="Enable it, then replay.")
        queued = _queue(alias, fresh, events, request)
        audit.record(actor, "webhook.replayed", fresh, details=_details(request, queued))
        doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    return queued


def _queue(alias: str, endpoint: Endpoint, events: Sequence[Event], request: Request) -> int:
    now = clock.db_now(alias)
    rows = Delivery.objects.using(alias).filter(
        endpoint=endpoint, event_id__in=[event.pk for event in events]
    )
    known = {row.event_id: row for row in rows}
    # The status may have changed while the lock was waited for.
    chosen = set(known) if request.status is None else _still(alias, known, request.status)
    free = [row for row in known.values() if row.event_id in chosen and not _is_leased(row, now)]
    ended = [row for row in free if row.state != PENDING]
    unknown = [] if request.status else [event for event in events if event.pk not in known]
    _hasten(alias, [row.pk for row in free if row.state == PENDING], now)
    if ended or unknown:
        with connections[alias].cursor() as cursor:
            position = next_positions(cursor, len(ended) + len(unknown))
        _reopen(alias, ended, position, now=now)
        _create(alias, endpoint, unknown, position + len(ended), now=now)
    return len(free) + len(unknown)


def _still(alias: str, known: dict[int, Delivery], status: str) -> set[int]:
    keys = [row.pk for row in known.values()]
    return set(
        Delivery.objects.using(alias).filter(STATUSES[status], pk__in=keys).values_list("event_id", flat=True)
    )


def _is_leased(row: Delivery, now: datetime) -> bool:
    return row.lease_until is not None and row.lease_until >= now


def _hasten(alias: str, keys: list[int], now: datetime) -> None:
    Delivery.objects.using(alias).filter(pk__in=keys, due_at__gt=now).update(due_at=now)


def _reopen(alias: str, rows: list[Delivery], position: int, *, now: datetime) -> None:
    for place, row in enumerate(sorted(rows, key=lambda each: each.event_id)):
        row.state = move(row.state, PENDING)
        row.position = position + place
    deliveries = Delivery.objects.using(alias)
    deliveries.bulk_update(rows, ["state", "position"], batch_size=_CHUNK)
    deliveries.filter(pk__in=[row.pk for row in rows]).update(
        priority=Delivery.Priority.RETRY, due_at=now, finished_at=None, step=0, deferrals=0, lapses=0
    )


def _create(alias: str, endpoint: Endpoint, events: Sequence[Event], position: int, *, now: datetime) -> None:
    rows = [
        Delivery(
            endpoint=endpoint,
            event=event,
            priority=Delivery.Priority.RETRY,
            due_at=now,
            position=position + place,
            occurred_at=event.occurred_at,
            expires_at=event.expires_at,
            created_at=now,
        )
        for place, event in enumerate(events)
    ]
    # A fan-out that is under way may be first; then it has queued the event.
    Delivery.objects.using(alias).bulk_create(rows, ignore_conflicts=True)


def _details(request: Request, queued: int) -> dict[str, object]:
    if request.event_ids is not None:
        return {"queued": queued, "asked": len(request.event_ids)}
    window = {"since": request.since, "until": request.until}
    shown = {name: moment.isoformat() for name, moment in window.items() if moment is not None}
    return {"queued": queued, "status": request.status, **shown}
