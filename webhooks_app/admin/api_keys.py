"""API keys: made and revoked through `actions`; the key is shown once, its hash never."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse

from ..actions.actor import PERMISSIONS
from ..actions.api_keys import create_api_key, revoke_api_key
from ..core.ids import parse_id
from ..exceptions import ActionError
from ..models import ApiKey, Endpoint
from . import action_pages
from .action_form import ActionForm
from .base import EvidenceAdmin, staff_actor

FIELDS = ("name", "scope", "scope_id", "environment", "permissions", "expires_at")
MAX_REVOKED = 100


class CreateForm(ActionForm[ApiKey]):
    """A new key."""

    scope_id = forms.CharField(required=False, empty_value=None, help_text="Id of the tenant or partner.")
    environment = forms.ChoiceField(choices=Endpoint.Environment.choices)
    permissions = forms.MultipleChoiceField(
        choices=[(name, name) for name in PERMISSIONS], widget=forms.CheckboxSelectMultiple
    )
    expires_at = forms.SplitDateTimeField(required=False, widget=AdminSplitDateTime)

    class Meta:
        model = ApiKey
        fields = FIELDS


@admin.register(ApiKey)
class ApiKeyAdmin(EvidenceAdmin[ApiKey]):
    """Callers of the REST API."""

    list_display = ("public_id", "name", "scope", "scope_id", "environment", "last_used_at", "revoked_at")
    search_help_text = "Id of a key, of a tenant or of a partner, or part of a name."
    actions = ("revoke_selected",)
    shown_fields = ("public_id", *FIELDS, "created_at", "last_used_at", "revoked_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        """Return the rows without the hashes."""
        return super().get_queryset(request).defer("sha256")

    def found(self, queryset: QuerySet[ApiKey], term: str) -> QuerySet[ApiKey]:
        """Return the key with an id, or those of an owner or with a name."""
        if parse_id("key", term) is not None:
            return queryset.filter(public_id=term)
        return queryset.filter(Q(scope_id=term) | Q(name__icontains=term))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever Django's permissions let add keys."""
        return request.user.has_perm("webhooks_app.add_apikey")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever Django's permissions let change or delete keys."""
        return request.user.has_perm("webhooks_app.change_apikey") or request.user.has_perm(
            "webhooks_app.delete_apikey"
        )

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Make a key; the answer shows it, once."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = CreateForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                created = create_api_key(staff_actor(request), **form.cleaned_data)
            except ActionError as error:
                form.refuse(error)
            else:
                self.log_addition(request, created.api_key, [{"added": {}}])
                return action_pages.shown_once(
                    self, request, obj=created.api_key, what="API key", secret=created.key
                )
        return action_pages.change_form(self, request, form, ((None, {"fields": FIELDS}),), editable=True)

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Return everything for an existing key, nothing for a new one."""
        return self.shown_fields if obj else ()

    @admin.action(description="Revoke for good", permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """Revoke the selected keys."""
        rows = list(queryset.order_by("pk")[:MAX_REVOKED])
        for row in rows:
            revoke_api_key(staff_actor(request), row.public_id)
        messages.success(request, f"{len(rows)} revoked.")
