"""Webhooks (Endpoint in the code): what a request may say of one, and how one is shown."""

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...actions.endpoint_fields import (
    ENVIRONMENTS,
    MAX_DESCRIPTION,
    MAX_ID,
    MAX_IDENTITIES,
    METHODS,
)
from ...core.headers import MAX_HEADERS, MAX_NAME, MAX_VALUE, NAME, VALUE
from ...core.matching import EVENT_TYPE, MAX_PATTERN_LENGTH, MAX_PATTERNS
from ...core.overrides import MAX_IN_FLIGHT
from ...models import Endpoint, EndpointState
from ..strict import Choice, Flag, Moment, Strict, Text, Whole
from .page import Page, PageQuery
from .webhook_limits import PolicyOverrides, RateLimit, RateLimitShown, ordering

MAX_URL = 2048
EARLIEST, LATEST = "earliest", "latest"
_FIXED = "Fixed when the webhook is created; create another one."

_ANY, _GROUP = "[A-Za-z0-9+/]", "(?:[A-Za-z0-9+/]{4})"
# What core.secrets takes, 24 to 64 bytes in their one spelling: left-over bits are zero.
SECRET_PATTERN = (
    rf"^\s*whsec_(?:{_GROUP}{{8,21}}(?:{_ANY}[AQgw]==)?|{_GROUP}{{8,20}}{_ANY}{{2}}[AEIMQUYcgkosw048]=)\s*$"
)


@extend_schema_field({"type": "string", "maxLength": 200, "pattern": SECRET_PATTERN})
class SecretText(Text):
    """A webhook's secret; the action checks it, so that no answer ever holds a part of it."""


@extend_schema_field({"type": "string", "pattern": rf"^(?:\*|{EVENT_TYPE.pattern}(?:\.\*)?)$"})
class PatternText(Text):
    """What a webhook asks for; the action checks it."""


@extend_schema_field({"type": "string", "pattern": f"^{NAME.pattern}$"})
class HeaderName(Text):
    """The name of a custom header; the action checks it."""


@extend_schema_field({"type": "string", "pattern": f"^{VALUE.pattern}$"})
class HeaderValue(Text):
    """The value of a custom header; the action checks it."""


class HeaderInput(Strict):
    """A custom header of every request."""

    name = HeaderName(max_length=MAX_NAME, help_text="None that the sender sets itself.")
    value = HeaderValue(
        max_length=MAX_VALUE, required=False, help_text="May be left out to keep a stored secret value."
    )
    secret = Flag(required=False, help_text="Whether the value is sealed and never shown again.")


class WebhookInput(Strict):
    """The fields that a request may set at any time."""

    url = Text(max_length=MAX_URL, help_text="An https URL.")
    events = serializers.ListField(
        child=PatternText(max_length=MAX_PATTERN_LENGTH),
        max_length=MAX_PATTERNS,
        help_text='`["*"]`, event types, or prefixes such as `order.*`; `[]` receives nothing.',
    )
    identity_ids = serializers.ListField(
        child=Text(max_length=MAX_ID),
        max_length=MAX_IDENTITIES,
        allow_null=True,
        required=False,
        help_text="Only events of these identities; null = all, `[]` = none.",
    )
    description = Text(
        max_length=MAX_DESCRIPTION, allow_blank=True, allow_null=True, required=False, help_text="For people."
    )
    policy = Text(
        max_length=64,
        required=False,
        help_text="How deliveries are retried: `standard`, `strict`, `exponential`, `quick`, or one of the "
        "operator's own.",
    )
    policy_overrides = PolicyOverrides(required=False, help_text="Own values in place of the policy's.")
    method = Choice(choices=METHODS, required=False, help_text="HTTP method of the requests; default: POST.")
    headers = HeaderInput(
        many=True, max_length=MAX_HEADERS, required=False, help_text="Sent with every request; replaces all."
    )
    max_in_flight = Whole(
        min_value=1, max_value=MAX_IN_FLIGHT, required=False, help_text="Requests open at once."
    )
    ordering = ordering()
    rate_limit = RateLimit(allow_null=True, required=False, help_text="Null = none.")


class WebhookCreate(WebhookInput):
    """A new webhook; without tenant and partner it is the caller's own."""

    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Its owner, when a tenant.")
    partner_id = Text(max_length=MAX_ID, required=False, help_text="Its owner, when a partner.")
    secret = SecretText(
        max_length=200, required=False, help_text="A `whsec_…` to take over; made when left out."
    )
    environment = Choice(choices=ENVIRONMENTS, required=False, help_text="Default: the key's.")

    def get_fields(self) -> dict[str, Any]:
        """Return the fields, and the one whose name is a word of Python's."""
        start = Choice(
            choices=[EARLIEST, LATEST],
            required=False,
            help_text="`earliest`: a job queues every retained event it may have; default: `latest`, those "
            "from now on.",
        )
        return {**super().get_fields(), "from": start}


class WebhookUpdate(WebhookInput):
    """What changes; fields left out stay."""

    hints: ClassVar = {
        "tenant_id": _FIXED,
        "partner_id": _FIXED,
        "environment": _FIXED,
        "from": "Use recover, or replay.",
        "secret": "Use rotate-secret.",
        "paused": "Use pause and resume.",
    }
    keywords: ClassVar = {"additionalProperties": False, "minProperties": 1}
    enabled = Flag(required=False, help_text="Enabling also forgets past failures.")
    retarget_pending = Flag(required=False, help_text="Send open deliveries to the new URL.")

    def validate(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse a change of nothing."""
        if not attrs.keys() - {"retarget_pending"}:
            raise serializers.ValidationError("Name at least one field to change.")
        return attrs


class RotateSecret(Strict):
    """How a secret is replaced."""

    overlap_hours = Whole(
        min_value=0, max_value=168, default=24, help_text="How long the old secret signs too."
    )
    secret = SecretText(
        max_length=200, required=False, help_text="A `whsec_…` to take over; made when left out."
    )


class Nothing(Strict):
    """An empty object, or no body at all."""


class WebhookQuery(PageQuery):
    """Filters of the list of webhooks."""

    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Only this tenant's.")


class HeaderShown(serializers.Serializer):
    """A custom header; a secret one without its value."""

    name = serializers.CharField()
    value = serializers.CharField(required=False)
    secret = serializers.BooleanField()


class Webhook(serializers.Serializer):
    """Where events go."""

    id = serializers.CharField(source="public_id")
    scope = serializers.ChoiceField(choices=["tenant", "partner", "platform"])
    tenant_id = serializers.CharField(allow_null=True)
    partner_id = serializers.CharField(allow_null=True)
    url = serializers.CharField()
    method = serializers.ChoiceField(choices=METHODS)
    events = serializers.ListField(child=serializers.CharField())
    identity_ids = serializers.ListField(child=serializers.CharField(), allow_null=True)
    description = serializers.CharField(allow_blank=True)
    policy = serializers.CharField()
    policy_overrides = serializers.DictField()
    headers = serializers.SerializerMethodField(help_text="Sent with every request.")
    max_in_flight = serializers.IntegerField()
    ordering = serializers.ChoiceField(choices=Endpoint.Ordering.values)
    rate_limit = RateLimitShown(allow_null=True)
    environment = serializers.ChoiceField(choices=ENVIRONMENTS)
    enabled = serializers.BooleanField(source="state.enabled")
    disabled_reason = serializers.CharField(source="state.disabled_reason", allow_null=True)
    paused = serializers.SerializerMethodField(help_text="Held: nothing is sent, nothing is lost.")
    breaker = serializers.ChoiceField(
        source="state.breaker",
        choices=EndpointState.Breaker.values,
        help_text="Open: deliveries wait, and the receiver is tried now and then.",
    )
    health_warning = serializers.SerializerMethodField(
        help_text="An error code to look into, such as `redirect`; null = none."
    )
    created_at = Moment()
    updated_at = Moment()

    @extend_schema_field(HeaderShown(many=True))
    def get_headers(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Return the headers as far as they may be read."""
        return [_shown(header) for header in endpoint.headers]

    def get_health_warning(self, endpoint: Endpoint) -> str | None:
        """Return the error code."""
        return endpoint.state.health_warning or None

    def get_paused(self, endpoint: Endpoint) -> bool:
        """Return whether deliveries are held."""
        return endpoint.state.paused_at is not None


class WebhookWithSecret(Webhook):
    """A webhook and its new secret, which cannot be read again.

    What only this answer tells is optional: a repeated request may get the webhook as it is then.
    """

    secret = serializers.CharField(required=False, help_text="Shown in this answer and never again.")
    secret_replayed = serializers.BooleanField(
        required=False, help_text="`false`, in place of the secret, in the answer to a repeated request."
    )

    def to_representation(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the webhook with its secret."""
        return {**super().to_representation(endpoint), "secret": self.context["secret"]}


class WebhookCreated(WebhookWithSecret):
    """A new webhook."""

    same_url = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Other webhooks of the same owner with this URL: it receives their events as well.",
    )

    def to_representation(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the webhook with its secret and its doubles."""
        return {**super().to_representation(endpoint), "same_url": list(self.context["same_url"])}


class WebhookRotated(WebhookWithSecret):
    """A webhook with a new secret."""

    previous_expires_at = Moment(
        required=False,
        allow_null=True,
        help_text="Until when the old secret signs beside the new one; null = it no longer does.",
    )

    def to_representation(self, endpoint: Endpoint) -> dict[str, Any]:
        """Return the webhook with its secret and the end of the overlap."""
        moment = self.context["previous_expires_at"]
        shown = None if moment is None else Moment().to_representation(moment)
        return {**super().to_representation(endpoint), "previous_expires_at": shown}


class WebhookPage(Page):
    """Webhooks, newest first."""

    data = Webhook(many=True)


def _shown(header: Mapping[str, Any]) -> dict[str, Any]:
    if header.get("secret"):
        return {"name": header["name"], "secret": True}
    return {"name": header["name"], "value": header["value"], "secret": False}
