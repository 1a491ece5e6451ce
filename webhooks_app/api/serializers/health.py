"""Health and status of webhooks: how they do, and where their deliveries stand."""

from typing import Any

from rest_framework import serializers

from ...models import Endpoint, EndpointState
from ...ops import health
from ..strict import Moment
from .page import Page

_DISABLE_PROGRESS = (
    "How near lasting failure has brought it to being disabled, from 0 to 1; null when its policy disables "
    "none."
)


class Breaker(serializers.Serializer):
    """The breaker: open, it holds deliveries back; half-open, it lets some through."""

    state = serializers.ChoiceField(choices=EndpointState.Breaker.values)
    since = Moment(allow_null=True, help_text="Its last change; null when there was none.")
    reason = serializers.CharField(allow_null=True, help_text="The error code that opened it.")
    next_probe_at = Moment(allow_null=True, help_text="No request is tried before; null while closed.")
    successes = serializers.IntegerField(help_text="Good requests in a row since the last change.")


class HealthFacts(serializers.Serializer):
    """What is known of a webhook's health at once."""

    id = serializers.CharField(source="endpoint.public_id")
    name = serializers.CharField(source="endpoint.description", allow_blank=True)
    enabled = serializers.BooleanField()
    disabled_reason = serializers.CharField(allow_null=True)
    disabled_at = Moment(allow_null=True)
    paused = serializers.BooleanField()
    breaker = Breaker()
    consecutive_failures = serializers.IntegerField(help_text="Since the last success, or enabling.")
    failing_since = Moment(allow_null=True, help_text="The first of these failures.")
    disable_progress = serializers.FloatField(allow_null=True, help_text=_DISABLE_PROGRESS)
    warnings = serializers.IntegerField(help_text="Warnings given about these failures.")
    health_warning = serializers.CharField(
        allow_null=True, help_text="An error code to look into, such as `redirect`."
    )
    last_success_at = Moment(allow_null=True)
    last_failure_at = Moment(allow_null=True)
    latency_ms = serializers.IntegerField(allow_null=True, help_text="Of the answers, smoothed.")
    window = serializers.IntegerField(help_text="Requests that it may have open at once now.")
    hold_until = Moment(allow_null=True, help_text="The receiver asked for silence until then.")

    def to_representation(self, instance: Any) -> Any:
        """Return the facts of an endpoint, or facts that are known already."""
        if isinstance(instance, Endpoint):
            instance = health.facts(instance, self.context["now"])
        return super().to_representation(instance)


class ErrorCount(serializers.Serializer):
    """How often an attempt failed with this code."""

    code = serializers.CharField()
    count = serializers.IntegerField()
    last_at = Moment()


class Latency(serializers.Serializer):
    """Percentiles of the durations, in milliseconds."""

    p50_ms = serializers.IntegerField(allow_null=True)
    p95_ms = serializers.IntegerField(allow_null=True)
    p99_ms = serializers.IntegerField(allow_null=True)


class Sample(serializers.Serializer):
    """Which attempts the figures are about."""

    attempts = serializers.IntegerField()
    since = Moment(allow_null=True)


class WebhookHealth(HealthFacts):
    """How a webhook does; the figures are of a sample of its newest attempts.

    The sample is of the last 24 hours, or of the newest 100 attempts when these were fewer; at most 1,000.
    Tests and the pings of an open breaker are none of them.
    """

    backlog_seconds = serializers.FloatField(help_text="How long the delivery waits that is due longest.")
    success_rate = serializers.FloatField(
        source="sample.success_rate", allow_null=True, help_text="From 0 to 1; null without attempts."
    )
    latency = Latency(source="sample.latency")
    recent_errors = ErrorCount(source="sample.errors", many=True, help_text="The ten most frequent.")
    sample = Sample()


class WebhookHealthPage(Page):
    """Health of webhooks, the newest webhook first."""

    data = HealthFacts(many=True)


class LastError(serializers.Serializer):
    """The last failed attempt."""

    at = Moment(allow_null=True)
    code = serializers.CharField()


class Lag(serializers.Serializer):
    """What is open at a webhook, retries that wait for their time included."""

    deliveries = serializers.IntegerField(help_text="Counted up to 1,000.")
    more = serializers.BooleanField(help_text="Whether there are more than that.")
    seconds = serializers.FloatField(help_text="How long the delivery waits that is due longest.")


class WebhookStatus(serializers.Serializer):
    """Where a webhook's deliveries stand."""

    id = serializers.CharField(source="endpoint.public_id")
    name = serializers.CharField(source="endpoint.description", allow_blank=True)
    ordering = serializers.ChoiceField(source="endpoint.ordering", choices=Endpoint.Ordering.values)
    delivering = serializers.BooleanField(help_text="Whether requests to it are under way.")
    owner = serializers.CharField(
        allow_null=True, help_text="The node that delivers; null while none does, or without an order."
    )
    delivered = serializers.IntegerField(help_text="Deliveries that arrived.")
    retried = serializers.IntegerField(help_text="Failed attempts that were, or will be, repeated.")
    failed = serializers.IntegerField(help_text="Failed attempts that were the last of their delivery.")
    dead_lettered = serializers.IntegerField(help_text="Deliveries that ended without arriving.")
    last_delivery_at = Moment(allow_null=True)
    last_error = LastError(allow_null=True)
    lag = Lag()
