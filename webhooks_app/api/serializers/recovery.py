"""Recovery: what is asked for, and what a webhook missed."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...actions.bulk_retry import STATUSES
from ...actions.endpoint_fields import MAX_ID
from ...actions.missed import Missed as MissedRow
from ...core.matching import MAX_PATTERN_LENGTH
from ...core.states import DEAD, ERRORS
from ..strict import Choice, Moment, Strict, Text
from .page import Page, PageQuery


class Recover(Strict):
    """Since when to take up what the webhook lacks."""

    since = Moment(help_text="Events that occurred at this time or later.")
    until = Moment(required=False, help_text="Events that occurred before this time; default: all by now.")


class BulkRetry(Strict):
    """Which deliveries to begin anew; filters that are left out leave all."""

    webhook_id = Text(max_length=MAX_ID, required=False, help_text="Only those of this webhook.")
    status = Choice(
        choices=list(STATUSES),
        required=False,
        help_text="`dead`: ended and never delivered; `failed`: still tried, last attempt failed; or the "
        "state of those that ended. Default: the dead ones that nobody cancelled.",
    )
    error = Choice(choices=sorted(ERRORS), required=False, help_text="Only those whose last error this is.")
    event_type = Text(max_length=MAX_PATTERN_LENGTH, required=False, help_text="Only of events of this type.")
    since = Moment(required=False, help_text="Events that occurred at this time or later.")
    until = Moment(required=False, help_text="Events that occurred before this time.")


class MissedQuery(PageQuery):
    """A window of time."""

    since = Moment(required=False, help_text="Occurred at this time or later; default: the retention.")
    until = Moment(required=False, help_text="Occurred before this time.")


class MissedEvent(serializers.Serializer):
    """An event that the webhook lacks."""

    event_id = serializers.CharField(source="event.public_id")
    event_type = serializers.CharField(source="event.type")
    occurred_at = Moment(source="event.occurred_at")
    delivery_id = serializers.SerializerMethodField(help_text="Null when it never had a delivery.")
    state = serializers.SerializerMethodField(help_text="How the delivery ended; null without one.")
    last_error = serializers.SerializerMethodField(help_text="Why; null without a delivery or an error.")

    def get_delivery_id(self, row: MissedRow) -> str | None:
        """Return the id of the dead delivery."""
        return row.delivery.public_id if row.delivery else None

    @extend_schema_field(
        serializers.ChoiceField(choices=sorted(state.value for state in DEAD), allow_null=True)
    )
    def get_state(self, row: MissedRow) -> str | None:
        """Return the state of the dead delivery."""
        return row.delivery.state if row.delivery else None

    def get_last_error(self, row: MissedRow) -> str | None:
        """Return the error code."""
        return (row.delivery.last_error or None) if row.delivery else None


class MissedPage(Page):
    """What a webhook lacks, newest first."""

    data = MissedEvent(many=True)
