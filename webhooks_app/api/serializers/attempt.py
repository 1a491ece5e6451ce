"""Attempts: the evidence of requests."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...core.states import ERRORS
from ...models import Attempt as AttemptRow
from ..strict import Choice, Moment, Text
from .page import Digits, Page, PageQuery


class AttemptQuery(PageQuery):
    """Filters of the list of attempts."""

    status = Choice(choices=AttemptRow.Status.values, required=False, help_text="Only of this status.")
    error = Choice(choices=sorted(ERRORS), required=False, help_text="Only those that failed so.")
    http_status = Digits(
        min_value=100, max_value=999, required=False, help_text="Only those answered with this status."
    )
    trigger = Choice(choices=AttemptRow.Trigger.values, required=False, help_text="Only of this trigger.")
    event_type = Text(max_length=128, required=False, help_text="Only of events of this type.")
    since = Moment(required=False, help_text="Made at this time or later.")
    until = Moment(required=False, help_text="Made before this time.")


class ReplyHeader(serializers.Serializer):
    """A header of the reply."""

    name = serializers.CharField(allow_blank=True)
    value = serializers.CharField(allow_blank=True)


class Reply(serializers.Serializer):
    """What came back, cut; it is the receiver's text, so escape it wherever it is shown."""

    headers = ReplyHeader(many=True)
    body = serializers.CharField(allow_blank=True)


class Attempt(serializers.Serializer):
    """One request, and what came back."""

    id = serializers.CharField(source="public_id", help_text="Sent as the header `webhook-delivery-id`.")
    webhook_id = serializers.SerializerMethodField(help_text="The webhook it was made to.")
    delivery_id = serializers.SerializerMethodField(help_text="Null for a test.")
    event_id = serializers.CharField()
    event_type = serializers.CharField()
    number = serializers.IntegerField(help_text="Counts the requests of a delivery.")
    trigger = serializers.ChoiceField(choices=AttemptRow.Trigger.values)
    status = serializers.ChoiceField(choices=AttemptRow.Status.values)
    error = serializers.SerializerMethodField(help_text="Why it failed; null = it did not.")
    http_status = serializers.IntegerField(allow_null=True)
    duration_ms = serializers.IntegerField()
    url = serializers.CharField(help_text="Without its query.")
    reply = serializers.SerializerMethodField(
        help_text="What came back; null where the caller lacks the permission for the event's type."
    )
    next_attempt_at = Moment(allow_null=True)
    created_at = Moment()

    def get_webhook_id(self, attempt: AttemptRow) -> str:
        """Return the id of the webhook the attempt was made at."""
        return str(self.context.get("webhook_id") or attempt.endpoint.public_id)

    def get_delivery_id(self, attempt: AttemptRow) -> str | None:
        """Return the delivery's id; its row may be gone, for the key has no constraint."""
        delivery = attempt.delivery if attempt.delivery_id is not None else None
        return None if delivery is None else delivery.public_id

    def get_error(self, attempt: AttemptRow) -> str | None:
        """Return the error code."""
        return attempt.error or None

    @extend_schema_field(Reply(allow_null=True))
    def get_reply(self, attempt: AttemptRow) -> dict[str, Any] | None:
        """Return the reply as text; a receiver may repeat what it got."""
        if attempt.event_type in self.context.get("withheld", ()):
            return None
        body = bytes(attempt.reply_body).decode(errors="replace").replace("\0", "")
        headers = [{"name": name, "value": value} for name, value in attempt.reply_headers]
        return {"headers": headers, "body": body}


class AttemptPage(Page):
    """Attempts, newest first."""

    data = Attempt(many=True)
