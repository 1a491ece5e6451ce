"""Replay: events of the past become due at an endpoint again, whatever became of them before."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from .. import conf
from ..core.policies import Policy
from ..core.states import PENDING
from ..destinations.policy import policy_of
from ..exceptions import Conflict, InvalidRequest
from ..models import Delivery, Endpoint, EndpointState, Event
from ..pipeline import clock, doorbell, requeue
from ..pipeline.requeue import Place, Waiting
from ..pipeline.transactions import reading
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .eligible import Eligible
from .enabled import check_enabled
from .ending import in_flight, is_leased
from .locking import lock_endpoint, lock_state
from .replay_copy import Marker, make_copies, open_copies
from .replay_selection import NEW, STATUSES, Request, checked, select
from .scope import get_endpoint
from .sensitivity import require_for_events

# So many compete with the retries; more go behind everything else.
FEW = 100


def replay(
    actor: Actor,
    endpoint: Endpoint,
    *,
    event_ids: Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    status: str | None = None,
    to: Endpoint | None = None,
    webhook_id: str | None = None,
) -> int:
    """Make events due at the endpoint now and return how many.

    Deliveries begin their schedule anew, ended and open ones; events the endpoint never had get their first.
    Only events that the endpoint's scope, filters and retention admit are selected; others are left out in
    silence, and so is what is being sent just now.

    Args:
        event_ids: at most 100 ids; or
        since, until: a window of `occurred_at`, `until` excluded, that selects at most 1,000 events;
        status: of the window only what is `dead` here (ended, never delivered), `failed` (open, last attempt
            failed) or `succeeded` (delivered before).
        to: another endpoint of the same environment that gets them; its scope, filters and policy count.
        webhook_id: `same`, or `new`: copies under ids of their own that carry a member `replay`; default:
            the policy's choice.

    Raises:
        InvalidRequest: neither or both ways to choose, bad values, or too many events.
        Conflict: `webhook_disabled`; `breaker_open` where the policy refuses replays meanwhile;
            `delivery_in_flight` when a single id is meant and is being sent.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`, or what sensitive event types take besides.
    """
    require(actor, WEBHOOKS_MANAGE)
    request = checked(event_ids=event_ids, since=since, until=until, status=status, webhook_id=webhook_id)
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        target = _target(actor, endpoint, to)
        require_for_events(actor, target.events)
        # Selecting and copying may take a while; only what follows keeps the path from this endpoint.
        events = _selected(actor, target, request, seen_at=endpoint.pk)
        _check_open(target, lock_state(alias, target.pk))
        queued = _queue(alias, target, events, request, seen_at=endpoint.pk)
        details = _details(request, queued, endpoint if to else None)
        audit.record(actor, "webhook.replayed", target, details=details)
        doorbell.ring_on_commit(alias, endpoint_ids=[target.pk])
    return queued


def _target(actor: Actor, endpoint: Endpoint, to: Endpoint | None) -> Endpoint:
    """Return the endpoint that gets the events, locked; the other one is only looked at."""
    if to is None:
        return lock_endpoint(actor, endpoint)
    source = get_endpoint(actor, endpoint.public_id)
    target = lock_endpoint(actor, to)
    if source.environment != target.environment:
        raise InvalidRequest([("to", f"must be a webhook of the environment {source.environment}")])
    return target


def _check_open(endpoint: Endpoint, state: EndpointState) -> None:
    check_enabled(state)
    if state.breaker != EndpointState.Breaker.CLOSED and not _policy(endpoint).replay_while_open:
        raise Conflict(
            "the webhook's circuit breaker is open",
            code="breaker_open",
            fix="Repeat the request when the receiver answers again and the breaker has closed.",
        )


def _policy(endpoint: Endpoint) -> Policy:
    return policy_of(endpoint)


@dataclass(frozen=True, slots=True)
class _Selected:
    """The events to queue: those asked for, or copies of them."""

    events: Sequence[Event]
    are_copies: bool


def _selected(actor: Actor, target: Endpoint, request: Request, *, seen_at: int) -> _Selected:
    alias = conf.current().DATABASE
    now = clock.db_now(alias)
    events = select(alias, Eligible(alias, target, now), request, seen_at=seen_at)
    if (request.webhook_id or _policy(target).replay_id) != NEW:
        return _Selected(events, are_copies=False)
    # Who presses the button twice means the same copies.
    known = open_copies(alias, target, events)
    rest = [event for event in events if event.pk not in known]
    copies = known | make_copies(alias, rest, Marker(now, actor.request_id or None))
    return _Selected([copies[event.pk] for event in events if event.pk in copies], are_copies=True)


def _queue(alias: str, target: Endpoint, selected: _Selected, request: Request, *, seen_at: int) -> int:
    now = clock.db_now(alias)
    known = _known(alias, target, selected.events)
    events = selected.events
    if request.status and seen_at == target.pk and not selected.are_copies:
        # The status may have changed while the lock was waited for.
        still = _still(alias, known.values(), request.status)
        events = [event for event in events if event.pk in still]
    busy = {key for key, row in known.items() if is_leased(row, now)}
    free = [event for event in events if event.pk not in busy]
    if events and not free and request.event_ids is not None and len(request.event_ids) == 1:
        raise in_flight()
    places: list[Place] = []
    waiting: list[Waiting] = []
    for event in free:
        row = known.get(event.pk)
        if row is not None and row.state == PENDING:
            waiting.append(Waiting(row.pk, row.lane))
        elif row is None or not selected.are_copies:
            places.append(Place.of(event, target.ordering, row.pk if row else None))
    with reading(alias) as tx:
        requeue.restart(tx, target.pk, waiting, now)
        priority = requeue.RETRY if len(free) <= FEW else requeue.BULK
        requeue.queue(tx, target.pk, places, priority=priority, now=now, delivered_too=True)
    return len(waiting) + len(places)


def _known(alias: str, endpoint: Endpoint, events: Sequence[Event]) -> dict[int, Delivery]:
    rows = Delivery.objects.using(alias).filter(
        endpoint=endpoint, event_id__in=[event.pk for event in events]
    )
    return {row.event_id: row for row in rows}


def _still(alias: str, rows: Collection[Delivery], status: str) -> set[int]:
    chosen = Delivery.objects.using(alias).filter(STATUSES[status], pk__in=[row.pk for row in rows])
    return set(chosen.values_list("event_id", flat=True))


def _details(request: Request, queued: int, source: Endpoint | None) -> dict[str, object]:
    details: dict[str, object] = {"queued": queued}
    if source is not None:
        details["from"] = source.public_id
    if request.webhook_id is not None:
        details["webhook_id"] = request.webhook_id
    if request.event_ids is not None:
        return {**details, "asked": len(request.event_ids)}
    window = {"since": request.since, "until": request.until}
    shown = {name: moment.isoformat() for name, moment in window.items() if moment is not None}
    return {**details, "status": request.status, **shown}
