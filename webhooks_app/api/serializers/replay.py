"""Replay: which events a webhook shall have again."""

from rest_framework import serializers

from ...actions.endpoint_fields import MAX_ID
from ...actions.replay_selection import MAX_IDS, NEW, SAME, STATUSES
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
    to = Text(
        max_length=MAX_ID,
        required=False,
        help_text="Another webhook of the same environment that gets them; its scope and filters count, and "
        "`status` still is about the deliveries of the webhook in the path.",
    )
    webhook_id = Choice(
        choices=[SAME, NEW],
        required=False,
        help_text="`same`: under the ids they had; `new`: as copies with ids of their own that have a member "
        "`replay`; default: as the policy says.",
    )


class Queued(serializers.Serializer):
    """How many deliveries were queued."""

    queued = serializers.IntegerField()
