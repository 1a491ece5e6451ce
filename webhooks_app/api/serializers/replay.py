"""Replay: which events a webhook shall have again."""

from rest_framework import serializers

from ...actions.replay_selection import MAX_IDS, STATUSES
from ..strict import Choice, Moment, Strict, Text


class Replay(Strict):
    """Either `event_ids`, or `since` with `until` and `status` as you like."""

    event_ids = serializers.ListField(
        child=Text(max_length=64),
        min_length=1,
        max_length=MAX_IDS,
        required=False,
        help_text="At most 100.",
    )
    since = Moment(required=False, help_text="Events that occurred at this time or later.")
    until = Moment(required=False, help_text="Events that occurred before this time; default: now.")
    status = Choice(
        choices=list(STATUSES),
        required=False,
        help_text="`dead`: ended and never delivered; `failed`: still tried, last attempt failed; "
        "`succeeded`: delivered at least once.",
    )


class Queued(serializers.Serializer):
    """How many deliveries were queued."""

    queued = serializers.IntegerField()
