"""Deliveries: the jobs and where they stand; ended ones can be sent again."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.urls.resolvers import URLPattern

from .. import conf
from ..actions.actor import Actor
from ..actions.cancel import cancel
from ..actions.replay import replay
from ..actions.resend import resend
from ..core.ids import parse_delivery_id, parse_id
from ..core.states import ERRORS, State
from ..exceptions import ActionError
from ..models import Delivery, Endpoint, Event
from . import shown
from .base import MANAGE, EvidenceAdmin, by_pk, staff_actor
from .change_list import recent_filter
from .endpoint_verbs import outcome
from .of_endpoint import OfEndpoint, attach_endpoints
from .retry_page import retry_page

MAX_REPLAYED = 100
# Each waits for its answer.
MAX_RESENT = 5


@admin.register(Delivery)
class DeliveryAdmin(OfEndpoint, EvidenceAdmin[Delivery]):
    """One event for one endpoint each."""

    list_display = (
        "public_id",
        "state",
        "event_shown_type",
        "attempts",
        "last_error",
        "created_at",
        "due_at",
        "endpoint_id_shown",
        "event_shown_id",
    )
    list_filter = (
        recent_filter("state", [(state.value, state.value) for state in State]),
        recent_filter("last_error", [(code, code) for code in sorted(ERRORS)]),
    )
    change_list_template = "admin/webhooks_app/delivery_change_list.html"
    search_help_text = "Id of a delivery, an endpoint or an event."
    actions = ("send_again", "send_once", "cancel_selected")
    shown_fields = (
        "public_id",
        "endpoint_link",
        "event_link",
        "attempts_link",
        "state",
        "last_error",
        "attempts",
        "step",
        "deferrals",
        "lapses",
        "priority",
        "due_at",
        "lease_until",
        "occurred_at",
        "expires_at",
        "first_delivered_at",
        "created_at",
        "finished_at",
    )

    def found(self, queryset: QuerySet[Delivery], term: str) -> QuerySet[Delivery]:
        """Return the deliveries of what the id names; each look-up has an index."""
        if (pk := parse_delivery_id(term)) is not None:
            return queryset.filter(pk=pk)
        alias = conf.current().DATABASE
        if parse_id("whk", term) is not None:
            endpoint = Endpoint.objects.using(alias).filter(public_id=term).first()
            return queryset.filter(endpoint=endpoint) if endpoint else queryset.none()
        event = Event.objects.using(alias).filter(public_id=term).first()
        return queryset.filter(event=event) if event else queryset.none()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Order an endpoint's deliveries by event, which is the index that finds them, else by key."""
        of_endpoint = parse_id("whk", request.GET.get("q", "").strip()) is not None
        return ("-event_id", "-pk") if of_endpoint else ("-pk",)

    def fetch_neighbours(self, rows: Sequence[Delivery]) -> None:
        """Attach endpoints and events; two queries a page."""
        attach_endpoints(rows)
        events = by_pk(Event, (row.event_id for row in rows), ["public_id", "type"])
        for row in rows:
            row.event_shown = events.get(row.event_id)  # type: ignore[attr-defined]

    @admin.display(description="event")
    def event_shown_id(self, delivery: Delivery) -> str:
        """Return the event's id; a pruned one has none left."""
        return _attribute(delivery, "event_shown", "public_id")

    @admin.display(description="type")
    def event_shown_type(self, delivery: Delivery) -> str:
        """Return the event's type."""
        return _attribute(delivery, "event_shown", "type")

    @admin.display(description="event")
    def event_link(self, delivery: Delivery) -> str:
        """Return a link to the event."""
        event = by_pk(Event, [delivery.event_id], ["public_id", "type"]).get(delivery.event_id)
        return shown.link("event", event.pk, str(event)) if event else shown.NOTHING

    @admin.display(description="evidence")
    def attempts_link(self, delivery: Delivery) -> str:
        """Return a link to the attempts."""
        return shown.search_link("attempt", delivery.public_id, "attempts of this delivery")

    def has_replay_permission(self, request: HttpRequest) -> bool:
        """Whoever may change endpoints may send to them again."""
        return request.user.has_perm(MANAGE)

    def get_urls(self) -> list[URLPattern]:
        """Add the page of the bulk retry."""
        view = self.admin_site.admin_view(self.retry_view)
        return [path("retry/", view, name="webhooks_app_delivery_retry"), *super().get_urls()]

    def retry_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for, count, or begin a bulk retry."""
        if not self.has_replay_permission(request):
            raise PermissionDenied
        return retry_page(self, request)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with the way to the bulk retry for whoever may."""
        more = {"may_retry": self.has_replay_permission(request), **(extra_context or {})}
        return super().changelist_view(request, more)

    @admin.action(description="Send again", permissions=["replay"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Replay the selected deliveries, endpoint by endpoint; each receives the same bytes and id."""
        rows = _chosen(request, queryset, MAX_REPLAYED)
        endpoints = Endpoint.objects.using(conf.current().DATABASE).in_bulk({row.endpoint_id for row in rows})
        for endpoint_id, group in groupby(rows, key=lambda row: row.endpoint_id):
            if endpoint := endpoints.get(endpoint_id):
                _replay(request, endpoint, [row.event_id for row in group])

    @admin.action(description="Send once, now", permissions=["replay"])
    def send_once(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Make one attempt of each, beside its schedule."""
        for row in _chosen(request, queryset, MAX_RESENT):
            _do(request, row, lambda actor, row: f"sent: {outcome(resend(actor, row))}")

    @admin.action(description="Cancel", permissions=["replay"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """End those that are open."""
        for row in _chosen(request, queryset, MAX_REPLAYED):
            _do(request, row, lambda actor, row: cancel(actor, row).state)


def _chosen(request: HttpRequest, queryset: QuerySet[Delivery], most: int) -> list[Delivery]:
    """Return the selected rows, endpoint by endpoint; none when there are too many."""
    rows = list(queryset.order_by("endpoint_id", "pk")[: most + 1])
    if len(rows) > most:
        messages.error(request, f"Choose at most {most} deliveries, or do it from the endpoint.")
        return []
    return rows


def _do(request: HttpRequest, row: Delivery, verb: Callable[[Actor, Delivery], str]) -> None:
    try:
        done = verb(staff_actor(request), row)
    except ActionError as error:
        messages.error(request, f"Delivery {row.public_id}: {error.told}")
    else:
        messages.success(request, f"Delivery {row.public_id} {done}.")


def _replay(request: HttpRequest, endpoint: Endpoint, event_pks: list[int]) -> None:
    events = by_pk(Event, event_pks, ["public_id"])
    try:
        queued = replay(
            staff_actor(request), endpoint, event_ids=[each.public_id for each in events.values()]
        )
    except ActionError as error:
        messages.error(request, f"Endpoint {endpoint.public_id}: {error.told}")
    else:
        messages.success(request, f"Endpoint {endpoint.public_id}: {queued} queued.")


def _attribute(row: Any, neighbour: str, name: str) -> str:
    return str(getattr(getattr(row, neighbour, None), name, shown.NOTHING))
