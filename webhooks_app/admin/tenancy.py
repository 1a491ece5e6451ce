"""Tenants and partners, for hosts that keep them here."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from ..models import Partner, Tenant
from .base import WebhooksAdmin


@admin.register(Partner)
class PartnerAdmin(WebhooksAdmin[Partner]):
    """Owners of tenants."""

    list_display = ("id", "suspended_at")
    fields = ("id", "suspended_at")
    prefix_fields = ("id",)
    search_help_text = "Id or its beginning (six characters or more)."

    def get_readonly_fields(self, request: HttpRequest, obj: Partner | None = None) -> Any:
        """Keep the id of an existing row: another id would be another row."""
        return ("id",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Partner, form: Any, change: bool) -> None:
        """Save into the delivery database."""
        obj.save(using=self.alias(request))


@admin.register(Tenant)
class TenantAdmin(WebhooksAdmin[Tenant]):
    """Customers of the host."""

    list_display = ("id", "partner_id", "retention_days", "suspended_at")
    fields = ("id", "partner", "retention_days", "suspended_at")
    raw_id_fields = ("partner",)
    exact_fields = ("partner_id",)
    prefix_fields = ("id",)
    search_help_text = "Id or its beginning (six characters or more), or the id of a partner."

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> Any:
        """Keep the id of an existing row: another id would be another row."""
        return ("id",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:
        """Save into the delivery database."""
        obj.save(using=self.alias(request))
