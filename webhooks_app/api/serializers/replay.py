"""Replay: which events a webhook shall have again."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from ..strict import Choice, Moment, Strict, Text

MAX_EVENTS = 100


class Replay(Strict):
    """Either events by id, or those of a time span."""

    event_ids = serializers.ListField(
        child=Text(max_length=64),
        min_length=1,
        max_length=MAX_EVENTS,
        required=False,
        help_text="At most 100.",
    )
    since = Moment(required=False, help_text="Events that occurred at this time or later.")
    until = Moment(required=False, help_text="Events that occurred before this time; default: now.")
    status = Choice(
        choices=["dead", "failed", "succeeded"],
        required=False,
        help_text="`dead`: ended and never delivered; `failed`: still tried, last attempt failed; "
        "`succeeded`: delivered at least once.",
    )

    def validate(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Insist on one of the two ways to choose."""
        if "event_ids" in attrs:
            _refuse_span(attrs)
        elif "since" not in attrs:
            raise serializers.ValidationError({"since": ["Give since, or event_ids."]})
        return attrs


class Queued(serializers.Serializer):
    """How many deliveries were queued."""

    queued = serializers.IntegerField()


def _refuse_span(attrs: Mapping[str, Any]) -> None:
    beside = [name for name in ("since", "until", "status") if name in attrs]
    if beside:
        raise serializers.ValidationError({name: ["Not together with event_ids."] for name in beside})
    if len(set(attrs["event_ids"])) < len(attrs["event_ids"]):
        raise serializers.ValidationError({"event_ids": ["Must not repeat an id."]})
