"""The catalogue of event types."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...event_types import EventType as Registered


class EventType(serializers.Serializer):
    """What one can subscribe to."""

    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    permission = serializers.CharField(
        allow_null=True, help_text="What a key needs besides, to have such events sent; null = nothing."
    )
    example = serializers.SerializerMethodField(help_text="Data of such an event; null = none is given.")

    @extend_schema_field(OpenApiTypes.ANY)
    def get_example(self, each: Registered) -> Any:
        """Return the example."""
        return each.example


class EventTypes(serializers.Serializer):
    """All types that are registered, by name; others may be sent too."""

    data = EventType(many=True)
