"""Match: what an event would be, and who would get it."""

from rest_framework import serializers

from ...actions.endpoint_fields import MAX_ID
from ...core.matching import EVENT_TYPE
from ..strict import Choice, Strict, Text
from .event import ENVIRONMENTS, TypeText


class MatchRequest(Strict):
    """An event that is not recorded."""

    type = TypeText(max_length=128, help_text="Words joined by full stops, such as `order.paid`.")
    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Default: the key's own tenant.")
    identity_id = Text(max_length=MAX_ID, required=False, help_text="A finer label.")
    environment = Choice(choices=ENVIRONMENTS, required=False, help_text="Default: the key's.")

    def validate_type(self, value: str) -> str:
        """Refuse what no event can be."""
        if not EVENT_TYPE.fullmatch(value):
            raise serializers.ValidationError("Must be words of A-Z a-z 0-9 _ joined by full stops.")
        return value


class Match(serializers.Serializer):
    """What one webhook would do with it."""

    webhook_id = serializers.CharField(source="endpoint.public_id")
    matches = serializers.SerializerMethodField(help_text="Whether it would get the event.")
    reason = serializers.ChoiceField(
        choices=["scope", "environment", "event_type", "identity", "disabled"],
        allow_null=True,
        help_text="Why it would not; null = it would.",
    )

    def get_matches(self, match: object) -> bool:
        """Return whether there is no reason against it."""
        return getattr(match, "reason", None) is None


class Matches(serializers.Serializer):
    """The caller's webhooks that the event's tenant, its partner or the platform owns, the oldest first."""

    data = Match(many=True)
