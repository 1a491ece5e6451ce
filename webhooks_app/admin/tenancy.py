"""Tenants and partners, for hosts that keep them here."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import ForeignKeyRawIdWidget
from django.http import HttpRequest

from .. import conf
from ..models import Partner, Tenant
from .base import M, WebhooksAdmin


class OwnerForm(forms.ModelForm):  # type: ignore[type-arg]
    """A row whose key is typed in; Django looks for a double in the default database only."""

    def clean_id(self) -> str:
        """Refuse an id that the delivery database has already."""
        typed: str = self.cleaned_data["id"]
        rows = self._meta.model._default_manager.using(conf.current().DATABASE)
        if self.instance._state.adding and rows.filter(pk=typed).exists():
            raise forms.ValidationError("There is one with this id already.")
        return typed


class PartnerWidget(ForeignKeyRawIdWidget):
    """A partner's id, typed in."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """Return what was typed; no partner has a NUL, and PostgreSQL cannot look for one."""
        typed = super().value_from_datadict(data, files, name)
        return typed.replace("\x00", "\ufffd") if isinstance(typed, str) else typed


class OwnerAdmin(WebhooksAdmin[M]):
    """Rows that staff add and change, in the delivery database."""

    form = OwnerForm
    prefix_fields = ("id",)

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> Any:
        """Keep the id of an existing row: another id would be another row."""
        return ("id",) if obj else ()

    def save_model(self, request: HttpRequest, obj: M, form: Any, change: bool) -> None:
        """Save into the delivery database; a new row never replaces one."""
        obj.save(using=self.alias(request), force_insert=not change)


@admin.register(Partner)
class PartnerAdmin(OwnerAdmin[Partner]):
    """Owners of tenants."""

    list_display = ("id", "suspended_at")
    fields = ("id", "suspended_at")
    search_help_text = "Id or its beginning (six characters or more)."


@admin.register(Tenant)
class TenantAdmin(OwnerAdmin[Tenant]):
    """Customers of the host."""

    list_display = ("id", "partner_id", "retention_days", "suspended_at")
    fields = ("id", "partner", "retention_days", "suspended_at")
    raw_id_fields = ("partner",)
    exact_fields = ("partner_id",)
    search_help_text = "Id or its beginning (six characters or more), or the id of a partner."

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Look for the partner in the delivery database."""
        alias = self.alias(request)
        kwargs |= {"using": alias, "queryset": Partner.objects.using(alias)}
        kwargs["widget"] = PartnerWidget(db_field.remote_field, self.admin_site, using=alias)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)
