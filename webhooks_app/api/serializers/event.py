"""Events: what comes in, and what is known of them."""

from collections.abc import Mapping
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...core.matching import EVENT_TYPE
from ...models import Event as EventRow
from ..strict import Choice, Moment, Object, Strict, Text
from .page import Page, PageQuery

ENVIRONMENTS = ["live", "test"]
MAX_BATCH = 500


class OwnerInput(Strict):
    """Whose sequence numbers the event."""

    kind = Text(max_length=64, help_text="Such as `order`.")
    id = Text(max_length=128, help_text="Such as `42`.")


@extend_schema_field({"type": "string", "pattern": f"^{EVENT_TYPE.pattern}$"})
class TypeText(Text):
    """The type of a new event; what records it checks it."""


class EventCreate(Strict):
    """A fact to tell the webhooks that want it."""

    type = TypeText(max_length=128, help_text="Words joined by full stops, such as `order.paid`.")
    data = Object(help_text="Sent as it is, integers of any size included.")
    tenant_id = Text(max_length=128, required=False, help_text="Default: the key's own tenant.")
    identity_id = Text(max_length=128, required=False, help_text="A finer label that webhooks may filter on.")
    owner = OwnerInput(required=False, help_text="Numbers the event in this owner's sequence.")
    subject = Text(max_length=256, required=False, help_text="What the event is about.")
    event_id = Text(
        max_length=64, required=False, help_text="Your own id: a second request with it changes nothing."
    )
    occurred_at = Moment(
        required=False, help_text="At most 1 hour ahead, and within the retention; default: now."
    )
    expires_at = Moment(required=False, help_text="No attempt starts after it.")
    environment = Choice(choices=ENVIRONMENTS, required=False, help_text="Default: the key's.")


class EventAccepted(serializers.Serializer):
    """The event as recorded."""

    id = serializers.CharField(help_text="The `webhook-id` of every request that carries it.")
    sequence = serializers.IntegerField(allow_null=True, help_text="Null without an owner.")
    created = serializers.BooleanField(help_text="False when `event_id` was known already.")


class EventBatch(Strict):
    """Several facts at once."""

    events = serializers.ListField(
        child=EventCreate(), min_length=1, max_length=MAX_BATCH, help_text="At most 500."
    )


class EventsAccepted(serializers.Serializer):
    """The events as recorded, in their order."""

    data = EventAccepted(many=True)


class EventQuery(PageQuery):
    """Filters of the list of events."""

    type = Text(max_length=128, required=False, help_text="Only events of this type.")
    tenant_id = Text(max_length=128, required=False, help_text="Only this tenant's.")
    identity_id = Text(max_length=128, required=False, help_text="Only of this identity.")
    owner_kind = Text(max_length=64, required=False, help_text="Only of owners of this kind.")
    owner_id = Text(max_length=128, required=False, help_text="Only of this owner; goes with `owner_kind`.")
    since = Moment(required=False, help_text="Occurred at this time or later.")
    until = Moment(required=False, help_text="Occurred before this time.")

    def validate(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse an owner's id without its kind."""
        if "owner_id" in attrs and "owner_kind" not in attrs:
            raise serializers.ValidationError({"owner_kind": ["Must be given with owner_id."]})
        return super().validate(attrs)


class Owner(serializers.Serializer):
    """Whose sequence numbers the event."""

    kind = serializers.CharField()
    id = serializers.CharField()


class Event(serializers.Serializer):
    """A fact; its bytes were fixed when it was recorded."""

    id = serializers.CharField(source="public_id")
    type = serializers.CharField()
    tenant_id = serializers.CharField(allow_null=True)
    partner_id = serializers.CharField(allow_null=True)
    identity_id = serializers.CharField(allow_null=True)
    owner = serializers.SerializerMethodField(help_text="Whose sequence numbers it.")
    sequence = serializers.IntegerField(allow_null=True)
    subject = serializers.CharField(allow_null=True)
    environment = serializers.ChoiceField(choices=ENVIRONMENTS)
    occurred_at = Moment()
    recorded_at = Moment()
    expires_at = Moment(allow_null=True)

    @extend_schema_field(Owner(allow_null=True))
    def get_owner(self, event: EventRow) -> dict[str, str | None] | None:
        """Return kind and id, or None."""
        return None if event.owner_id is None else {"kind": event.owner_kind, "id": event.owner_id}


class EventDetail(Event):
    """An event with what it says."""

    data = serializers.SerializerMethodField(help_text="What webhooks receive; null once it was removed.")

    @extend_schema_field(OpenApiTypes.ANY)
    def get_data(self, event: EventRow) -> Any:
        """Return the data, as read from the envelope."""
        return self.context["data"]


class EventPage(Page):
    """Events, newest first."""

    data = Event(many=True)
