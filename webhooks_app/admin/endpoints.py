"""Endpoints: registered, changed and switched through `actions`, never by saving a row."""

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path
from django.urls.resolvers import URLPattern

from ..actions.actor import Actor
from ..actions.delete_endpoint import delete_endpoint
from ..actions.disable import disable
from ..actions.enable import enable
from ..actions.pause import pause
from ..actions.register_endpoint import register_endpoint
from ..actions.resume import resume
from ..actions.test_send import test_send
from ..actions.update_endpoint import update_endpoint
from ..core.ids import parse_id
from ..exceptions import ActionError
from ..models import Endpoint
from . import action_pages
from .base import WebhooksAdmin, staff_actor
from .endpoint_columns import EndpointColumns, SituationFilter
from .endpoint_facts import attach
from .endpoint_forms import LIMITS, RegisterForm, UpdateForm
from .endpoint_verbs import VERBS, outcome, verb_page
from .health_columns import HEALTH, WORK, HealthColumns
from .missed_page import missed_page

SAME_URL = "Others of the same owner have this URL, so it receives what they receive as well:"
MAX_SWITCHED = 100
MAX_TESTED = 5

FACTS = (
    ("public_id", "situation"),
    ("scope", "tenant_id", "partner_id", "environment"),
    ("created_at", "updated_at"),
    "links",
)
CONTENT = ("url", "method", "description", "events", "identity_ids", "headers")
READ_ONLY = (
    *(
        "public_id",
        "situation",
        "scope",
        "tenant_id",
        "partner_id",
        "environment",
        "created_at",
        "updated_at",
    ),
    *HEALTH,
    *WORK,
    "secrets_shown",
    "links",
    "headers_shown",
)

ADD_FIELDSETS: action_pages.Fieldsets = (
    (None, {"fields": ("tenant_id", "partner_id", "environment", *CONTENT)}),
    ("Retries and limits", {"fields": LIMITS}),
)


def _fieldsets(*, editable: bool) -> action_pages.Fieldsets:
    content = (
        ("enabled", "url", "retarget_pending", *CONTENT[1:]) if editable else (*CONTENT[:-1], "headers_shown")
    )
    return (
        (None, {"fields": FACTS}),
        ("What it receives", {"fields": content}),
        ("Retries and limits", {"fields": LIMITS}),
        ("Health", {"fields": HEALTH}),
        ("Deliveries", {"fields": WORK}),
        ("Secrets", {"fields": ("secrets_shown",)}),
    )


@admin.register(Endpoint)
class EndpointAdmin(EndpointColumns, HealthColumns, WebhooksAdmin[Endpoint]):
    """Where consumers want events."""

    list_display = (
        "public_id",
        "owner",
        "host",
        "situation",
        "breaker",
        "warned",
        "consecutive_failures",
        "counts",
        "holder",
        "environment",
        "description",
    )
    list_filter = (SituationFilter,)
    list_select_related = ("state",)
    search_help_text = "Id of an endpoint, a tenant or a partner, or part of a host name."
    readonly_fields = READ_ONLY
    actions = ("enable_selected", "disable_selected", "pause_selected", "resume_selected", "test_selected")
    change_form_template = "admin/webhooks_app/endpoint_change_form.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        """Return endpoints with their states, the deleted ones included: evidence points to them."""
        return super().get_queryset(request).select_related("state")

    def found(self, queryset: QuerySet[Endpoint], term: str) -> QuerySet[Endpoint]:
        """Return the endpoint with an id, or those of an owner, or with a host."""
        if parse_id("whk", term) is not None:
            return queryset.filter(public_id=term)
        return queryset.filter(Q(tenant_id=term) | Q(partner_id=term) | Q(url__icontains=term))

    def fetch_neighbours(self, rows: Sequence[Endpoint]) -> None:
        """Attach what the columns of the list tell of each endpoint's health; two queries a page."""
        attach(rows)

    # --- registering and changing

    def has_change_permission(self, request: HttpRequest, obj: Endpoint | None = None) -> bool:
        """Allow no change of a deleted endpoint."""
        return super().has_change_permission(request, obj) and not (obj and obj.deleted_at)

    def has_delete_permission(self, request: HttpRequest, obj: Endpoint | None = None) -> bool:
        """Allow no second deletion."""
        return super().has_delete_permission(request, obj) and not (obj and obj.deleted_at)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Register an endpoint; the answer shows its secret, once."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        form = RegisterForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            try:
                registered = register_endpoint(staff_actor(request), **form.values())
            except ActionError as error:
                form.refuse(error)
            else:
                endpoint = registered.endpoint
                self.log_addition(request, endpoint, [{"added": {}}])
                if registered.same_url:
                    messages.warning(request, f"{SAME_URL} {', '.join(registered.same_url)}")
                return action_pages.shown_once(
                    self, request, obj=endpoint, what="secret", secret=registered.secret
                )
        return action_pages.change_form(self, request, form, ADD_FIELDSETS, editable=True)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show an endpoint; change what was touched in the form."""
        endpoint = self._endpoint(request, object_id)
        editable = self.has_change_permission(request, endpoint)
        if not editable and (request.method == "POST" or not self.has_view_permission(request, endpoint)):
            raise PermissionDenied
        form = UpdateForm(request.POST if request.method == "POST" else None, instance=endpoint)
        if form.is_valid():
            changes = form.changes()
            try:
                if changes:
                    update_endpoint(staff_actor(request), endpoint, changes)
                    self.log_change(request, endpoint, [{"changed": {"fields": sorted(changes)}}])
            except ActionError as error:
                form.refuse(error)
            else:
                return self.response_change(request, endpoint)
        return action_pages.change_form(self, request, form, _fieldsets(editable=editable), editable=editable)

    def get_readonly_fields(self, request: HttpRequest, obj: Endpoint | None = None) -> tuple[str, ...]:
        """Return the facts about an existing endpoint; a new one has none."""
        return READ_ONLY if obj else ()

    def _endpoint(self, request: HttpRequest, object_id: str) -> Endpoint:
        found = self.get_object(request, object_id)
        if found is None:
            raise Http404("There is no such endpoint.")
        return found

    # --- deleting

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Return what the confirmation lists: the endpoints alone, whose rows stay as evidence."""
        names = [str(each) for each in objs]
        return names, {str(self.opts.verbose_name_plural): len(names)}, set(), []

    def delete_model(self, request: HttpRequest, obj: Endpoint) -> None:
        """Delete one endpoint by the action."""
        delete_endpoint(staff_actor(request), obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Delete the selected endpoints by the action, those that are deleted already left out."""
        for endpoint in queryset.filter(deleted_at__isnull=True).order_by("pk"):
            delete_endpoint(staff_actor(request), endpoint)

    # --- verbs

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of the verbs, and of what an endpoint missed."""
        view = self.admin_site.admin_view
        own = [
            path("<int:object_id>/do/<slug:verb>/", view(self.verb_view), name="webhooks_app_endpoint_verb"),
            path("<int:object_id>/missed/", view(self.missed_view), name="webhooks_app_endpoint_missed"),
        ]
        return [*own, *super().get_urls()]

    def missed_view(self, request: HttpRequest, object_id: int) -> HttpResponse:
        """List what an endpoint lacks."""
        endpoint = self._endpoint(request, str(object_id))
        if not self.has_view_permission(request, endpoint):
            raise PermissionDenied
        return missed_page(self, request, endpoint)

    def verb_view(self, request: HttpRequest, object_id: int, verb: str) -> HttpResponse:
        """Ask for, or do, one of VERBS."""
        if verb not in VERBS:
            raise Http404("There is no such page.")
        endpoint = self._endpoint(request, str(object_id))
        if not self.has_change_permission(request, endpoint):
            raise PermissionDenied
        return verb_page(self, request, endpoint, VERBS[verb])

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, or do what was chosen."""
        return super().changelist_view(request, extra_context)

    @admin.action(description="Enable", permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Enable the selected endpoints."""
        self._switch(request, queryset, enable)

    @admin.action(description="Disable", permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Disable the selected endpoints."""
        self._switch(request, queryset, disable)

    @admin.action(description="Pause", permissions=["change"])
    def pause_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Pause the selected endpoints."""
        self._switch(request, queryset, pause)

    @admin.action(description="Resume", permissions=["change"])
    def resume_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Resume the selected endpoints."""
        self._switch(request, queryset, resume)

    @admin.action(description="Send a test", permissions=["change"])
    def test_selected(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> None:
        """Send a test to each of a few endpoints; the page waits for all of them."""
        for endpoint in _few(request, queryset, MAX_TESTED):
            try:
                attempt = test_send(staff_actor(request), endpoint)
            except ActionError as error:
                messages.error(request, f"Endpoint {endpoint}: {error.told}")
            else:
                messages.info(request, f"Endpoint {endpoint}: {outcome(attempt)}.")

    def _switch(
        self, request: HttpRequest, queryset: QuerySet[Endpoint], verb: Callable[[Actor, Endpoint], object]
    ) -> None:
        done = 0
        for endpoint in _few(request, queryset, MAX_SWITCHED):
            try:
                verb(staff_actor(request), endpoint)
                done += 1
            except ActionError as error:
                messages.error(request, f"Endpoint {endpoint}: {error.told}")
        messages.success(request, f"{done} done.")


def _few(request: HttpRequest, queryset: QuerySet[Endpoint], most: int) -> list[Endpoint]:
    """Return the selected endpoints; none, and a message, when there are more than `most`."""
    rows = list(queryset.order_by("pk")[: most + 1])
    if len(rows) > most:
        messages.error(request, f"Choose at most {most} endpoints.")
        return []
    return rows
