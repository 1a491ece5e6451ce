"""The audit: who did what to whom."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ...actions.endpoint_fields import MAX_ID
from ...models import AuditEntry as AuditRow
from ..strict import Moment, Object, Text
from .page import Page, PageQuery


class AuditQuery(PageQuery):
    """Filters of the audit."""

    action = Text(max_length=64, required=False, help_text="Only this action, such as `webhook.updated`.")
    target_id = Text(max_length=MAX_ID, required=False, help_text="Only what was done to this object.")
    tenant_id = Text(max_length=MAX_ID, required=False, help_text="Only what concerns this tenant.")
    since = Moment(required=False, help_text="Done at this time or later.")
    until = Moment(required=False, help_text="Done before this time.")


class AuditActor(serializers.Serializer):
    """Who acted."""

    kind = serializers.CharField(help_text="`key`, `staff`, `command`, `system`, or what the host calls it.")
    id = serializers.CharField(
        allow_null=True, help_text="The key's id. Null when somebody of the operator's acted, but for these."
    )


class AuditTarget(serializers.Serializer):
    """To what it was done."""

    type = serializers.CharField(help_text="`webhook`, `api_key`, `job` or `installation`.")
    id = serializers.CharField(allow_blank=True)


class AuditEntry(serializers.Serializer):
    """One action."""

    id = serializers.CharField(source="public_id")
    action = serializers.CharField()
    actor = serializers.SerializerMethodField(help_text="Who acted.")
    target = serializers.SerializerMethodField(help_text="To what it was done.")
    tenant_id = serializers.CharField(allow_null=True)
    partner_id = serializers.CharField(allow_null=True)
    request_id = serializers.CharField(allow_blank=True)
    details = Object(help_text="Ids and settings.")
    created_at = Moment()

    @extend_schema_field(AuditActor)
    def get_actor(self, entry: AuditRow) -> dict[str, Any]:
        """Return who it was, as far as the reader may know."""
        hidden = entry.actor_kind != "key" and not self.context["operator"]
        return {"kind": entry.actor_kind, "id": None if hidden else entry.actor_id}

    @extend_schema_field(AuditTarget)
    def get_target(self, entry: AuditRow) -> dict[str, str]:
        """Return type and id."""
        return {"type": entry.target_type, "id": entry.target_id}


class AuditPage(Page):
    """What was done, the latest first."""

    data = AuditEntry(many=True)
