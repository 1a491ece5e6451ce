"""What lists and pages show of an endpoint and its state; of secrets only that they exist."""

from datetime import datetime

from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from ..models import Endpoint, EndpointState
from . import shown
from .endpoint_facts import facts_of
from .endpoint_forms import without_secrets


def _moment(at: datetime | None) -> str:
    """Show a time as the admin shows those of fields; it leaves what a method returns as it is."""
    return display_for_value(at, "-")


class SituationFilter(admin.SimpleListFilter):
    """Enabled, disabled, paused, in trouble or deleted; deleted endpoints are shown on request only."""

    title = "situation"
    parameter_name = "situation"
    conditions = {
        "enabled": Q(deleted_at__isnull=True, state__enabled=True),
        "disabled": Q(deleted_at__isnull=True, state__enabled=False),
        "paused": Q(deleted_at__isnull=True, state__paused_at__isnull=False),
        "breaker open": Q(deleted_at__isnull=True) & ~Q(state__breaker=EndpointState.Breaker.CLOSED),
        "warned": Q(deleted_at__isnull=True) & (Q(state__warnings__gt=0) | ~Q(state__health_warning="")),
        "deleted": Q(deleted_at__isnull=False),
    }

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(name, name) for name in self.conditions]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Endpoint]) -> QuerySet[Endpoint]:
        """Return the rows of the choice."""
        return queryset.filter(self.conditions.get(self.value() or "", Q(deleted_at__isnull=True)))


class EndpointColumns:
    """Columns of EndpointAdmin."""

    @admin.display(description="owner")
    def owner(self, endpoint: Endpoint) -> str:
        """Return whose it is."""
        name = endpoint.tenant_id if endpoint.tenant_id is not None else endpoint.partner_id
        return endpoint.scope if name is None else f"{endpoint.scope} {name}"

    @admin.display(description="host")
    def host(self, endpoint: Endpoint) -> str:
        """Return the URL's host; the path is on the endpoint's own page only."""
        return shown.host(endpoint.url)

    @admin.display(description="situation")
    def situation(self, endpoint: Endpoint) -> str:
        """Return whether it receives, and if not, why and since when."""
        if endpoint.deleted_at:
            return f"deleted {endpoint.deleted_at:%Y-%m-%d %H:%M}"
        known, told = facts_of(endpoint), []
        if not known.enabled:
            since = f" {known.disabled_at:%Y-%m-%d %H:%M}" if known.disabled_at else ""
            told.append(f"disabled ({known.disabled_reason}){since}")
        if known.paused_at:
            told.append(f"paused {known.paused_at:%Y-%m-%d %H:%M}")
        return ", ".join(told) or "enabled"

    @admin.display(description="failures in a row")
    def consecutive_failures(self, endpoint: Endpoint) -> int:
        """Return the failed attempts since the last success."""
        return facts_of(endpoint).consecutive_failures

    @admin.display(description="first of them")
    def first_failure(self, endpoint: Endpoint) -> str:
        """Return when the present row of failures began."""
        return _moment(facts_of(endpoint).failing_since)

    @admin.display(description="last failure")
    def last_failure(self, endpoint: Endpoint) -> str:
        """Return when an attempt last failed."""
        return _moment(facts_of(endpoint).last_failure_at)

    @admin.display(description="last success")
    def last_success(self, endpoint: Endpoint) -> str:
        """Return when an attempt last succeeded."""
        return _moment(facts_of(endpoint).last_success_at)

    @admin.display(description="requests in flight, at most now")
    def window(self, endpoint: Endpoint) -> int:
        """Return the present window, or the endpoint's own limit where that is lower."""
        return facts_of(endpoint).window

    @admin.display(description="silent until")
    def held_until(self, endpoint: Endpoint) -> str:
        """Return until when the receiver asked for silence."""
        return _moment(facts_of(endpoint).hold_until)

    @admin.display(description="headers")
    def headers_shown(self, endpoint: Endpoint) -> str:
        """Return the custom headers without secret values."""
        return shown.pre_json(without_secrets(endpoint.headers))

    @admin.display(description="versions")
    def secrets_shown(self, endpoint: Endpoint) -> str:
        """Return which secrets there are, and nothing of what is in them."""
        rows = endpoint.secrets.defer("sealed").order_by("-version")
        lines = [
            f"{row.version}: since {row.created_at:%Y-%m-%d %H:%M}"
            + (f", ends {row.expires_at:%Y-%m-%d %H:%M}" if row.expires_at else "")
            + (f", last used {row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "")
            for row in rows
        ]
        return shown.pre("\n".join(lines))

    @admin.display(description="see")
    def links(self, endpoint: Endpoint) -> str:
        """Return links to what belongs to the endpoint."""
        names = {"delivery": "deliveries", "attempt": "attempts", "auditentry": "audit"}
        links = [shown.search_link(name, endpoint.public_id, text) for name, text in names.items()]
        if endpoint.deleted_at is None:
            url = reverse("admin:webhooks_app_endpoint_missed", args=[endpoint.pk])
            links.append(format_html('<a href="{}">missed events</a>', url))
        return shown.joined(links)
