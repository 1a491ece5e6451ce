"""/v1/events"""

from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import EVENTS_WRITE, WEBHOOKS_READ
from ...actions.scope import visible_events
from ...models import Event
from ..event_lookup import find_event
from ..event_pages import event_walk
from ..ingest import ingest
from ..operations import Operation
from ..pagination import look_at_most
from ..serializers import event as shapes
from .base import ApiView
from .lists import ListView

ENVELOPE_ROOM = 64 * 1024
_TAG = "Events"


class Events(ListView[Event]):
    """Events, and the way in for new ones."""

    operations = {
        "GET": Operation(
            id="listEvents",
            tag=_TAG,
            summary="List events, the latest first",
            description="An event appears once it was fanned out, a moment after it was recorded. Events of "
            "one tenant or partner come by the time they occurred, those of all as they were recorded.",
            permission=WEBHOOKS_READ,
            query=shapes.EventQuery,
            answer=shapes.EventPage,
            errors=("cursor_expired",),
        ),
        "POST": Operation(
            id="createEvent",
            tag=_TAG,
            summary="Record an event",
            description="Once this is answered the event is safe; it goes to the webhooks that want it.",
            permission=EVENTS_WRITE,
            body=shapes.EventCreate,
            answer=shapes.EventAccepted,
            status=202,
            errors=("tenant_not_found", "event_id_conflict"),
        ),
    }
    time_column = "occurred_at"
    exact = {name: name for name in ("type", "tenant_id", "identity_id", "owner_kind", "owner_id")}

    def body_limit(self) -> int:
        """Return the limit of an envelope, and room for what surrounds the data."""
        return conf.current().MAX_BODY_BYTES + ENVELOPE_ROOM

    def get(self, request: Request) -> Response:
        """List."""
        walk, keys = event_walk(self.actor, self.given)
        rows = visible_events(self.actor).defer("body")
        return self.page(rows, keys=keys, floor=look_at_most(walk, keys))

    def post(self, request: Request) -> Response:
        """Record."""
        return self.answer(ingest(self.actor, self.read()))


class OneEvent(ApiView):
    """One event."""

    operations = {
        "GET": Operation(
            id="getEvent",
            tag=_TAG,
            summary="Read an event with its data",
            permission=WEBHOOKS_READ,
            answer=shapes.EventDetail,
            errors=("event_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        event, data = find_event(self.actor, id)
        return self.answer(event, data=data)
