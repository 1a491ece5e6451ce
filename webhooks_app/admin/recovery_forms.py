"""Forms that choose what is sent again. Their times are UTC, whatever the host's time zone is."""

from datetime import UTC, datetime
from typing import Any

from django import forms
from django.utils import timezone

from ..actions.bulk_retry import STATUSES as RETRIED
from ..actions.replay_selection import STATUSES as REPLAYED
from ..core.states import ERRORS


class UtcField(forms.DateTimeField):
    """A moment as the API's users and the log have it."""

    def to_python(self, value: Any) -> datetime | None:
        """Return the moment; what is typed without a zone is UTC."""
        with timezone.override(UTC):
            return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        """Return the moment to show."""
        with timezone.override(UTC):
            return super().prepare_value(value)


class RecoverForm(forms.Form):
    """Since when an endpoint gets what it lacks."""

    since = UtcField(help_text="Events that occurred from then on. UTC.")
    until = UtcField(required=False, help_text="And before then.")


class MissedForm(forms.Form):
    """Of when an endpoint's missed events are listed."""

    since = UtcField(required=False, help_text="UTC; empty: as far back as events are retained.")
    until = UtcField(required=False, help_text="And before then.")


class ReplayForm(forms.Form):
    """Which events are sent again."""

    since = UtcField(help_text="Events that occurred from then on, at most 1,000. UTC.")
    until = UtcField(required=False, help_text="And before then.")
    status = forms.ChoiceField(
        required=False,
        choices=[("", "whatever became of them"), *((name, name) for name in REPLAYED)],
        help_text="dead: ended, never delivered; failed: open, last attempt failed; succeeded: delivered.",
    )


class RetryForm(forms.Form):
    """Which deliveries begin anew."""

    webhook_id = forms.CharField(
        required=False,
        label="Endpoint",
        widget=forms.TextInput(attrs={"size": 40}),
        help_text="An id; empty: all, but for those that are disabled.",
    )
    status = forms.ChoiceField(
        required=False,
        choices=[("", "died, and nobody cancelled them"), *((name, name) for name in RETRIED)],
        help_text="dead: ended, never delivered; failed: open, last attempt failed; or how they ended.",
    )
    error = forms.ChoiceField(
        required=False, label="Last error", choices=[("", "any"), *((code, code) for code in sorted(ERRORS))]
    )
    event_type = forms.CharField(required=False, help_text="Such as order.paid; empty: any.")
    since = UtcField(required=False, help_text="Events that occurred from then on. UTC.")
    until = UtcField(required=False, help_text="And before then.")
