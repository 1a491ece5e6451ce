"""Audit entries: who did what to whom."""

from django.contrib import admin
from django.db.models import QuerySet

from ..core.ids import parse_id
from ..models import AuditEntry
from . import shown
from .base import EvidenceAdmin

TENANT = "tenant:"
TARGETS = {"whk": "webhook", "key": "api_key"}


@admin.register(AuditEntry)
class AuditEntryAdmin(EvidenceAdmin[AuditEntry]):
    """One action each."""

    list_display = ("created_at", "action", "target_id", "tenant_id", "partner_id", "actor_kind", "actor_id")
    search_help_text = "Id of an entry, an endpoint or an API key, or tenant:ID."
    shown_fields = (
        "public_id",
        "created_at",
        "action",
        "actor_kind",
        "actor_id",
        "target_type",
        "target_id",
        "tenant_id",
        "partner_id",
        "request_id",
        "details_shown",
    )

    def found(self, queryset: QuerySet[AuditEntry], term: str) -> QuerySet[AuditEntry]:
        """Return the entries about what the id names; each look-up has an index."""
        if term.startswith(TENANT):
            return queryset.filter(tenant_id=term.removeprefix(TENANT))
        for prefix, target_type in TARGETS.items():
            if parse_id(prefix, term) is not None:
                return queryset.filter(target_type=target_type, target_id=term)
        return queryset.filter(public_id=term)

    @admin.display(description="details")
    def details_shown(self, entry: AuditEntry) -> str:
        """Return the details as JSON."""
        return shown.pre_json(entry.details)
