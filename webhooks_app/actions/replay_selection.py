"""Which events a replay means: those asked for that the endpoint would be given today."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from ..core.ids import EVENT_ID
from ..core.states import DEAD, PENDING
from ..exceptions import InvalidRequest
from ..models import Delivery, Event
from .eligible import Eligible
from .faults import Faults
from .payload import has_payload

MAX_IDS = 100
MAX_EVENTS = 1_000
SAME, NEW = "same", "new"

# What has become of the events' deliveries at a webhook; events without one have no status.
STATUSES = {
    "dead": Q(state__in=[str(state) for state in DEAD], first_delivered_at__isnull=True),
    "failed": Q(state=PENDING, attempts__gt=0) & ~Q(last_error=""),
    "succeeded": Q(first_delivered_at__isnull=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to replay: events by their ids, or those that occurred from `since` on and before `until`.

    `webhook_id`: `same` or `new`; None = as the endpoint's policy says.
    """

    event_ids: tuple[str, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: str | None = None
    webhook_id: str | None = None


def checked(
    *,
    event_ids: Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
    status: str | None,
    webhook_id: str | None,
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
        check_window(since, until, faults)
        if status is not None and status not in STATUSES:
            faults.add("status", f"must be one of {', '.join(STATUSES)}")
    if webhook_id not in (None, SAME, NEW):
        faults.add("webhook_id", f"must be {SAME} or {NEW}")
    faults.finish()
    ids = None if event_ids is None else tuple(event_ids)
    return Request(event_ids=ids, since=since, until=until, status=status, webhook_id=webhook_id)


def _check_ids(event_ids: object, faults: Faults) -> None:
    if not isinstance(event_ids, list | tuple) or not 1 <= len(event_ids) <= MAX_IDS:
        faults.add("event_ids", f"must be a list of 1 to {MAX_IDS} ids")
    elif not all(isinstance(event_id, str) for event_id in event_ids):
        faults.add("event_ids", "must hold text only")
    elif len(set(event_ids)) != len(event_ids):
        faults.add("event_ids", "must not repeat an id")


def check_window(since: object, until: object, faults: Faults) -> None:
    """Note the faults of a window of time; either end may be None."""
    for path, value in (("since", since), ("until", until)):
        if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
            faults.add(path, "must be a date and time with a time zone")
            return
    if since is not None and until is not None and until <= since:  # type: ignore[operator]
        faults.add("until", "must be later than since")


def select(alias: str, eligible: Eligible, request: Request, *, seen_at: int) -> list[Event]:
    """Return the events, in their order, that match the request and the endpoint's subscription.

    What is left out in silence: other owners' events, those out of the filters, tests, events that are
    expired, erased or past their retention (counted from `occurred_at`), copies that an earlier replay made,
    and ids that nobody knows.

    Args:
        seen_at: key of the endpoint at whose deliveries `status` looks.

    Raises InvalidRequest for more than 1,000 events.
    """
    rows = eligible.rows().filter(has_payload(), _asked_for(alias, request, seen_at), replay_of__isnull=True)
    found: list[Event] = []
    for event in rows.order_by("id").defer("body").iterator(chunk_size=MAX_EVENTS + 1):
        if eligible.takes(event):
            found.append(event)
        if len(found) > MAX_EVENTS:
            raise InvalidRequest(
                [("since", f"selects more than {MAX_EVENTS} events; choose a narrower window")]
            )
    return found


def _asked_for(alias: str, request: Request, seen_at: int) -> Q:
    if request.event_ids is not None:
        # Text that is no id is an error to some databases, not an empty result.
        return Q(public_id__in=[text for text in request.event_ids if EVENT_ID.fullmatch(text)])
    asked = Q(occurred_at__gte=request.since)
    if request.until is not None:
        asked &= Q(occurred_at__lt=request.until)
    if request.status is not None:
        deliveries = Delivery.objects.using(alias).filter(STATUSES[request.status], endpoint_id=seen_at)
        asked &= Q(Exists(deliveries.filter(event_id=OuterRef("pk"))))
    return asked
