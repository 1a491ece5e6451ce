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
    MAX_IN_FLIGHT,
    METHODS,
)
from ...core.headers import MAX_HEADERS, MAX_NAME, MAX_VALUE
from ...core.matching import MAX_PATTERN_LENGTH, MAX_PATTERNS
from ...core.policies import PRESETS
from ...models import Endpoint
from ..strict import Choice, Flag, Moment, Number, Strict, Text, Whole
from .page import Page, PageQuery

MAX_URL = 2048
_FIXED = "Fixed when the webhook is created; create another one."


class PolicyOverrides(Strict):
    """An endpoint's own values in place of its policy's; seconds and bytes."""

    waits = serializers.ListField(
        child=Number(), required=False, help_text="Seconds after the 1st, 2nd, … failure."
    )
    jitter = Number(required=False, help_text="Largest deviation from a wait, as a share of it.")
    connect_timeout = Number(required=False, help_text="Seconds.")
    total_timeout = Number(required=False, help_text="Seconds, connecting included.")
    reply_bytes = Whole(required=False, help_text="How much of a reply is kept.")


class HeaderInput(Strict):
    """A custom header of every request."""

    name = Text(max_length=MAX_NAME, help_text="None that the sender sets itself.")
    value = Text(
        max_length=MAX_VALUE, required=False, help_text="May be left out to keep a stored secret value."
    )
    secret = Flag(required=False, help_text="Whether the value is sealed and never shown again.")


class WebhookInput(Strict):
    """The fields that a request may set at any time."""

    url = Text(max_length=MAX_URL, help_text="An https URL.")
    events = serializers.ListField(
        child=Text(max_length=MAX_PATTERN_LENGTH),
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
    policy = Choice(choices=list(PRESETS), required=False, help_text="How deliveries are retried.")
    policy_overrides = PolicyOverrides(required=False, help_text="Own values in place of the policy's.")
    method = Choice(choices=METHODS, required=False, help_text="HTTP method of the requests; default: POST.")
    headers = HeaderInput(
        many=True, max_length=MAX_HEADERS, required=False, help_text="Sent with every request; replaces all."
    )
    max_in_flight = Whole(
        min_value=1, max_value=MAX_IN_FLIGHT, required=False, help_text="Requests open at once."
    )


class WebhookCreate(WebhookInput):
    """A new webhook; without tenant and partner it is the caller's own."""

    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Its owner, when a tenant.")
    partner_id = Text(max_length=MAX_ID, required=False, help_text="Its owner, when a partner.")
    secret = Text(max_length=200, required=False, help_text="A `whsec_…` to take over; made when left out.")
    environment = Choice(choices=ENVIRONMENTS, required=False, help_text="Default: the key's.")


class WebhookUpdate(WebhookInput):
    """What changes; fields left out stay."""

    hints: ClassVar = {
        "tenant_id": _FIXED,
        "partner_id": _FIXED,
        "environment": _FIXED,
        "secret": "Use rotate-secret.",
        "paused": "Use pause and resume.",
    }
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
    secret = Text(max_length=200, required=False, help_text="A `whsec_…` to take over; made when left out.")


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
    environment = serializers.ChoiceField(choices=ENVIRONMENTS)
    enabled = serializers.BooleanField(source="state.enabled")
    disabled_reason = serializers.CharField(source="state.disabled_reason", allow_null=True)
    paused = serializers.SerializerMethodField(help_text="Held: nothing is sent, nothing is lost.")
    created_at = Moment()
    updated_at = Moment()

    @extend_schema_field(HeaderShown(many=True))
    def get_headers(self, endpoint: Endpoint) -> list[dict[str, Any]]:
        """Return the headers as far as they may be read."""
        return [_shown(header) for header in endpoint.headers]

    def get_paused(self, endpoint: Endpoint) -> bool:
        """Return whether deliveries are held."""
        return endpoint.state.paused_at is not None


class WebhookWithSecret(Webhook):
    """A webhook and its new secret, which cannot be read again."""

    secret = serializers.SerializerMethodField(help_text="Shown in this answer and never again.")

    def get_secret(self, endpoint: Endpoint) -> str:
        """Return the secret."""
        return str(self.context["secret"])


class WebhookCreated(WebhookWithSecret):
    """A new webhook."""

    same_url = serializers.SerializerMethodField(
        help_text="Other webhooks of the same owner with this URL: it receives every event of theirs as well."
    )

    def get_same_url(self, endpoint: Endpoint) -> list[str]:
        """Return their ids."""
        return list(self.context["same_url"])


class WebhookRotated(WebhookWithSecret):
    """A webhook with a new secret."""

    previous_expires_at = serializers.SerializerMethodField(
        help_text="Until when the old secret signs beside the new one; null = it no longer does."
    )

    @extend_schema_field(Moment(allow_null=True))
    def get_previous_expires_at(self, endpoint: Endpoint) -> str | None:
        """Return when the overlap ends."""
        moment = self.context["previous_expires_at"]
        return None if moment is None else Moment().to_representation(moment)


class WebhookPage(Page):
    """Webhooks, newest first."""

    data = Webhook(many=True)


def _shown(header: Mapping[str, Any]) -> dict[str, Any]:
    if header.get("secret"):
        return {"name": header["name"], "secret": True}
    return {"name": header["name"], "value": header["value"], "secret": False}
