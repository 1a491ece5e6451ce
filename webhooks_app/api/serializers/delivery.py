"""Deliveries: the jobs of a webhook."""

from rest_framework import serializers

from ...actions.endpoint_fields import MAX_ID
from ...actions.replay_selection import STATUSES
from ...core.states import ERRORS, State
from ...models import Delivery as DeliveryRow
from ..strict import Choice, Moment, Text
from .page import Page, PageQuery

STATES = [state.value for state in State]


class DeliveryQuery(PageQuery):
    """Filters of the list of deliveries."""

    state = Choice(choices=STATES, required=False, help_text="Only in this state.")
    status = Choice(
        choices=list(STATUSES),
        required=False,
        help_text="`dead`: ended and never delivered; `failed`: still tried, last attempt failed; "
        "`succeeded`: delivered at least once.",
    )
    error = Choice(
        choices=sorted(ERRORS), required=False, help_text="Only those whose last attempt failed so."
    )
    event_type = Text(max_length=128, required=False, help_text="Only of events of this type.")
    since = Moment(required=False, help_text="Made at this time or later.")
    until = Moment(required=False, help_text="Made before this time.")


class AllDeliveriesQuery(DeliveryQuery):
    """Filters of the list of deliveries at all webhooks."""

    webhook_id = Text(max_length=MAX_ID, required=False, help_text="Only to this webhook.")
    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Only to this tenant's webhooks.")


class Delivery(serializers.Serializer):
    """One event for one webhook."""

    id = serializers.CharField(source="public_id")
    webhook_id = serializers.SerializerMethodField(help_text="The webhook it is for.")
    event_id = serializers.CharField(source="event.public_id")
    event_type = serializers.CharField(source="event.type")
    state = serializers.ChoiceField(choices=STATES)
    attempts = serializers.IntegerField(help_text="Requests made.")
    due_at = Moment(allow_null=True, help_text="When the next attempt is due; null when none is.")
    last_error = serializers.SerializerMethodField(
        help_text="Why the last attempt failed, or why it ended without another one; null = neither."
    )
    first_delivered_at = Moment(allow_null=True)
    created_at = Moment()
    finished_at = Moment(allow_null=True)

    def get_webhook_id(self, delivery: DeliveryRow) -> str:
        """Return the id of the webhook the list belongs to, or the delivery's own."""
        return str(self.context.get("webhook_id") or delivery.endpoint.public_id)

    def get_last_error(self, delivery: DeliveryRow) -> str | None:
        """Return the error code."""
        return delivery.last_error or None


class DeliveryPage(Page):
    """Deliveries, the newest event first."""

    data = Delivery(many=True)
