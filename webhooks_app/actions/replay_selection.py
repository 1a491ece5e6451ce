"""Which events a replay means: those asked for that the endpoint would be given today."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet

from ..core.ids import EVENT_ID
from ..core.matching import NEVER_FANNED_OUT, EventFacts, Subscription, wants
from ..core.states import DEAD, PENDING
from ..exceptions import InvalidRequest
from ..models import Delivery, Endpoint, Event
from .faults import Faults
from .tenancy import retention

MAX_IDS = 100
MAX_EVENTS = 1_000

# What has become of the events' deliveries here; events without one have no status.
STATUSES = {
    "dead": Q(state__in=[str(state) for state in DEAD], first_delivered_at__isnull=True),
    "failed": Q(state=PENDING, attempts__gt=0) & ~Q(last_error=""),
    "succeeded": Q(first_delivered_at__isnull=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to replay: events by their ids, or those that occurred from `since` on and before `until`."""

    event_ids: tuple[str, ...] | None
    since: datetime | None
    until: datetime | None
    status: str | None


def checked(
    event_ids: Sequence[str] | None, since: datetime | None, until: datetime | None, status: str | None
) -> Request:
    """Return the request. Raises InvalidRequest unless it is a list of ids, or a window."""
    faults = Faults()
    if (event_ids is None) == (since is None):
        faults.add("event_ids", "give either event_ids, or since with until and status as you like")
    elif event_ids is not None:
        _check_ids(event_ids, faults)
        for path, value in (("until", until), ("status", status)):
            if value is not None:
                faults.add(path, "goes with since, not with event_ids")
    else:
        _check_window(since, until, status, faults)
    faults.finish()
    return Request(
        event_ids=None if event_ids is None else tuple(event_ids), since=since, until=until, status=status
    )


def _check_ids(event_ids: object, faults: Faults) -> None:
    if not isinstance(event_ids, list | tuple) or not 1 <= len(event_ids) <= MAX_IDS:
        faults.add("event_ids", f"must be a list of 1 to {MAX_IDS} ids")
    elif not all(isinstance(event_id, str) for event_id in event_ids):
        faults.add("event_ids", "must hold text only")
    elif len(set(event_ids)) != len(event_ids):
        faults.add("event_ids", "must not repeat an id")


def _check_window(since: object, until: object, status: object, faults: Faults) -> None:
    for path, value in (("since", since), ("until", until)):
        if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
            faults.add(path, "must be a date and time with a time zone")
            return
    if since is not None and until is not None and until <= since:  # type: ignore[operator]
        faults.add("until", "must be later than since")
    if status is not None and status not in STATUSES:
        faults.add("status", f"must be one of {', '.join(STATUSES)}")


def select(alias: str, endpoint: Endpoint, request: Request, now: datetime) -> list[Event]:
    """Return the events, in their order, that match the request and the endpoint's subscription.

    What is left out in silence: other owners' events, those out of the filters, tests, events that are
    expired or past their retention (counted from `occurred_at`), and ids that nobody knows.

    Raises InvalidRequest for more than 1,000 events.
    """
    rows = _candidates(alias, endpoint, now).filter(_asked_for(alias, endpoint, request)).order_by("id")
    is_kept, subscription = _keeper(alias, endpoint, now), _subscription(endpoint)
    found: list[Event] = []
    for event in rows.defer("body").iterator(chunk_size=MAX_EVENTS + 1):
        if is_kept(event) and wants(subscription, _facts(event)):
            found.append(event)
        if len(found) > MAX_EVENTS:
            raise InvalidRequest(
                [("since", f"selects more than {MAX_EVENTS} events; choose a narrower window")]
            )
    return found


def _candidates(alias: str, endpoint: Endpoint, now: datetime) -> QuerySet[Event]:
    """Narrow down in SQL what `wants` decides, so that a window does not read a whole platform's events."""
    owner = {
        "tenant": {"tenant_id": endpoint.tenant_id},
        "partner": {"partner_id": endpoint.partner_id},
        "platform": {},
    }[endpoint.scope]
    rows = Event.objects.using(alias).filter(
        _types(endpoint.events), environment=endpoint.environment, **owner
    )
    if endpoint.identity_ids is not None:
        rows = rows.filter(identity_id__in=endpoint.identity_ids)
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    return rows.filter(_types(endpoint.events), alive).exclude(type__in=NEVER_FANNED_OUT)


def _types(patterns: Sequence[str]) -> Q:
    wanted = Q(type__in=patterns)
    for pattern in patterns:
        if pattern.endswith("*"):
            wanted |= Q(type__startswith=pattern[:-1])
    return wanted


def _asked_for(alias: str, endpoint: Endpoint, request: Request) -> Q:
    if request.event_ids is not None:
        # Text that is no id is an error to some databases, not an empty result.
        return Q(public_id__in=[text for text in request.event_ids if EVENT_ID.fullmatch(text)])
    asked = Q(occurred_at__gte=request.since)
    if request.until is not None:
        asked &= Q(occurred_at__lt=request.until)
    if request.status is not None:
        deliveries = Delivery.objects.using(alias).filter(STATUSES[request.status], endpoint_id=endpoint.pk)
        asked &= Q(Exists(deliveries.filter(event_id=OuterRef("pk"))))
    return asked


def _keeper(alias: str, endpoint: Endpoint, now: datetime) -> Callable[[Event], bool]:
    """Whether an event may still be sent: the retention of its tenant and of the endpoint's both count."""
    days = retention(alias).days
    most = days(endpoint.tenant_id)
    return lambda event: event.occurred_at + timedelta(days=min(most, days(event.tenant_id))) > now


def _subscription(endpoint: Endpoint) -> Subscription:
    identities = endpoint.identity_ids
    return Subscription(
        scope=endpoint.scope,  # type: ignore[arg-type]
        tenant_id=endpoint.tenant_id,
        partner_id=endpoint.partner_id,
        environment=endpoint.environment,
        events=tuple(endpoint.events),
        identity_ids=None if identities is None else tuple(identities),
        endpoint_id=str(endpoint.pk),
    )


def _facts(event: Event) -> EventFacts:
    return EventFacts(
        type=event.type,
        tenant_id=event.tenant_id,
        partner_id=event.partner_id,
        identity_id=event.identity_id,
        environment=event.environment,
        about=str(event.about_endpoint_id or ""),
        # An operational event names the tenant only when the tenant may hear of it.
        notify_tenant=event.tenant_id is not None,
    )
