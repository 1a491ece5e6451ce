"""How a webhook is treated: its own values in place of its policy's, and its rate."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from rest_framework import serializers

from ...models import Endpoint
from ..strict import Choice, Flag, Number, Strict, Whole


class AutoDisableOverrides(Strict):
    """When lasting failure disables the webhook; what is left out is the policy's."""

    failures = Whole(required=False, help_text="So many in a row at least.")
    span = Number(required=False, help_text="Seconds that it must have failed for.")
    start_within = Number(
        required=False,
        allow_null=True,
        help_text="Seconds after which another failure starts the clock anew, before it runs; null = never.",
    )
    start_span = Number(required=False, help_text="Seconds of failures from which on the clock runs.")
    warnings = serializers.ListField(
        child=Number(), required=False, help_text="Shares of the way at which to warn, rising."
    )


class BreakerOverrides(Strict):
    """When deliveries are held back; what is left out is the policy's."""

    failures = Whole(required=False, help_text="So many in a row open it.")
    open_seconds = Number(required=False, help_text="How long nothing goes out after it opened.")
    probe_seconds = Number(required=False, help_text="Least time between two rounds of probes.")
    probes = Whole(required=False, help_text="Requests of one round at most.")
    probes_to_half_open = Whole(
        required=False, help_text="Good probes in a row that make it half-open; 0 = time alone does."
    )
    successes_to_close = Whole(required=False, help_text="Good requests in a row that close it.")


class OrFalse(serializers.Field):
    """An object of the given shape, or `false`, which turns the rule off."""

    default_error_messages: ClassVar = dict.fromkeys(("invalid", "null"), "Must be a JSON object or false.")

    def __init__(self, shape: type[Strict], **options: Any) -> None:
        super().__init__(**options)
        self.shape = shape

    def to_internal_value(self, data: Any) -> Any:
        """Return the object's values or False, or refuse."""
        if data is False:
            return False
        if not isinstance(data, Mapping):
            self.fail("invalid")
        given = self.shape(data=data)
        given.is_valid(raise_exception=True)
        return dict(given.validated_data)


class OrFalseExtension(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI tells of `OrFalse`."""

    target_class = OrFalse

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        """Return the schema of the object, or of `false`."""
        shape = auto_schema._map_serializer(self.target.shape, direction)
        return {"oneOf": [shape, {"type": "boolean", "enum": [False]}]}


def _statuses(help_text: str) -> serializers.ListField:
    return serializers.ListField(child=Whole(), required=False, help_text=help_text)


class PolicyOverrides(Strict):
    """A webhook's own values in place of its policy's; seconds and bytes."""

    waits = serializers.ListField(
        child=Number(), required=False, help_text="Seconds after the 1st, 2nd, … failure, at least 1 each."
    )
    jitter = Number(required=False, help_text="Largest deviation from a wait, as a share of it.")
    jitter_kind = Choice(
        choices=["random", "delivery", "none"],
        required=False,
        help_text="`delivery`: fixed per delivery and step.",
    )
    max_wait = Number(required=False, help_text="Longest wait that jitter or a Retry-After may make.")
    window = Number(
        required=False, allow_null=True, help_text="No attempt so long after the schedule began; null = none."
    )
    time_to_live = Number(
        required=False, allow_null=True, help_text="An event expires so long after it was recorded."
    )
    connect_timeout = Number(required=False, help_text="Seconds.")
    total_timeout = Number(required=False, help_text="Seconds, connecting included.")
    reply_bytes = Whole(required=False, help_text="How much of a reply is kept.")
    retried = _statuses("HTTP statuses that are tried again; every other failing one is final.")
    retry_after_on = _statuses("HTTP statuses whose Retry-After raises the wait.")
    retry_refused = Flag(required=False, help_text="Whether a refused address is tried again.")
    free_deferrals = Whole(required=False, help_text="How many waits of a Retry-After cost no attempt.")
    honours_control = Flag(required=False, help_text="Whether the reply header `webhook-delivery` acts.")
    gone_disables = Flag(required=False, help_text="Whether a 410 disables the webhook.")
    warns_redirect = Flag(required=False, help_text="Whether a redirect is shown as a health warning.")
    auto_disable = OrFalse(
        AutoDisableOverrides,
        required=False,
        help_text="When lasting failure disables the webhook; `false` = never.",
    )
    breaker = OrFalse(
        BreakerOverrides, required=False, help_text="When deliveries are held back; `false` = never."
    )
    notify_tenant = Flag(
        required=False, help_text="Whether the tenant's other webhooks hear of its troubles."
    )
    replay_id = Choice(
        choices=["same", "new"], required=False, help_text="Whether a replay keeps the `webhook-id`."
    )
    replay_while_open = Flag(required=False, help_text="Whether a replay is taken while the breaker is open.")


class RateLimit(Strict):
    """How many requests may leave."""

    per_second = Number(help_text="On average; 0.1 is one in ten seconds.")
    burst = Number(required=False, help_text="At once, after a quiet time; default: those of one second.")


class RateLimitShown(serializers.Serializer):
    """How many requests may leave."""

    per_second = serializers.FloatField()
    burst = serializers.FloatField()


def ordering(**options: Any) -> Choice:
    """Return the field of a request that says whether deliveries keep an order."""
    return Choice(
        choices=Endpoint.Ordering.values,
        required=False,
        help_text="`fifo`: one after another, `max_in_flight` is 1; `subject`: one after another of the same "
        "owner; holds for events recorded from now on.",
        **options,
    )
