"""/v1/events"""

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import EVENTS_WRITE, WEBHOOKS_READ
from ...actions.scope import visible_events
from ...events import EventRef
from ...models import Event
from .. import cloudevents
from ..event_lookup import find_event
from ..event_pages import event_walk
from ..ingest import ingest, ingest_many
from ..operations import Operation
from ..pagination import look_at_most
from ..serializers import event as shapes
from ..serializers.cloudevent import CloudEvent, CloudEventList
from .base import ApiView
from .lists import ListView

ENVELOPE_ROOM = 64 * 1024
BATCH_LIMIT = 5 * 1024 * 1024
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
            staff=("view_event",),
            query=shapes.EventQuery,
            answer=shapes.EventPage,
            errors=("cursor_expired",),
        ),
        "POST": Operation(
            id="createEvent",
            tag=_TAG,
            summary="Record an event",
            description="Once this is answered the event is safe; it goes to the webhooks that want it. "
            "CloudEvents 1.0 are taken too: structured, as a batch of at most 500, or binary, with `ce-` "
            "headers and the data as the body. Their `source`, `dataschema` and extensions that the schema "
            "does not name are not kept: what receivers need of them belongs into `data`.",
            permission=EVENTS_WRITE,
            body=shapes.EventCreate,
            bodies={cloudevents.STRUCTURED: CloudEvent, cloudevents.BATCH: CloudEventList},
            answer=shapes.EventAccepted,
            also=shapes.EventsAccepted,
            status=202,
            errors=("tenant_not_found", "event_id_conflict"),
        ),
    }
    time_column = "occurred_at"
    exact = {name: name for name in ("type", "tenant_id", "identity_id", "owner_kind", "owner_id")}

    def body_limit(self) -> int:
        """Return the limit of an envelope, and room for what surrounds the data; of a batch its own."""
        if cloudevents.is_batch(self.request.META):
            return BATCH_LIMIT
        return conf.current().MAX_BODY_BYTES + ENVELOPE_ROOM

    def media_types(self) -> frozenset[str]:
        """Return what the body may be; data of a binary CloudEvent is JSON unless it says else."""
        untold = {""} if cloudevents.is_binary(self.request.META) else set()
        return super().media_types() | untold

    def payload(self) -> Any:
        """Return the body; a binary CloudEvent with its headers, as the structured form has it."""
        headers, data = self.request.META, self.request.data
        return cloudevents.from_headers(headers, data) if cloudevents.is_binary(headers) else data

    def get(self, request: Request) -> Response:
        """List."""
        walk, keys = event_walk(self.actor, self.given)
        # Copies that replays made are no events of their own.
        rows = visible_events(self.actor).filter(replay_of__isnull=True).defer("body")
        return self.page(rows, keys=keys, floor=look_at_most(walk, keys))

    def post(self, request: Request) -> Response:
        """Record."""
        headers = request.META
        if cloudevents.is_batch(headers):
            answer = shapes.EventsAccepted({"data": self._batch()})
            return Response(answer.data, status=self.operation.status)
        if cloudevents.is_event(headers):
            (values,) = cloudevents.values_of([self.payload()], at_places=False)
            return self.answer(ingest(self.actor, values, cloudevents.NAMES))
        return self.answer(ingest(self.actor, self.read()))

    def _batch(self) -> list[EventRef]:
        given = self.payload()
        if not isinstance(given, list) or len(given) > shapes.MAX_BATCH:
            raise ValidationError(f"Must be a JSON array of at most {shapes.MAX_BATCH} events.")
        values = cloudevents.values_of(given, at_places=True)
        return ingest_many(self.actor, values, names=cloudevents.NAMES)


class EventBatch(ApiView):
    """The way in for many."""

    operations = {
        "POST": Operation(
            id="createEvents",
            tag=_TAG,
            summary="Record several events, all or none",
            description="At most 500, and 5 MiB. An error names the place of its event.",
            permission=EVENTS_WRITE,
            body=shapes.EventBatch,
            answer=shapes.EventsAccepted,
            status=202,
            errors=("tenant_not_found", "event_id_conflict"),
        )
    }

    def body_limit(self) -> int:
        """Return the limit of a batch."""
        return BATCH_LIMIT

    def post(self, request: Request) -> Response:
        """Record."""
        return self.answer({"data": ingest_many(self.actor, self.read()["events"], at="events/")})


class OneEvent(ApiView):
    """One event."""

    operations = {
        "GET": Operation(
            id="getEvent",
            tag=_TAG,
            summary="Read an event with its data",
            permission=WEBHOOKS_READ,
            staff=("view_event",),
            answer=shapes.EventDetail,
            errors=("event_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        event, data = find_event(self.actor, id)
        return self.answer(event, data=data)
