"""Events: what was emitted, and the bytes that every attempt sends."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from .. import conf
from ..core.ids import EVENT_ID
from ..models import Event
from ..pipeline.contents import read_contents
from . import shown
from .base import EvidenceAdmin, by_pk

TENANT, PARTNER = "tenant:", "partner:"


@admin.register(Event)
class EventAdmin(EvidenceAdmin[Event]):
    """One fact each."""

    list_display = (
        "public_id",
        "type",
        "tenant_id",
        "environment",
        "sequence",
        "occurred_at",
        "fanned_out_at",
        "is_copy",
    )
    search_help_text = "Id of an event or its beginning, or tenant:ID, or partner:ID."
    prefix_fields = ("public_id",)
    shown_fields = (
        "public_id",
        "type",
        "tenant_id",
        "partner_id",
        "identity_id",
        "owner",
        "sequence",
        "subject",
        "environment",
        "occurred_at",
        "recorded_at",
        "expires_at",
        "fanned_out_at",
        "original_link",
        "deliveries_link",
        "body_shown",
    )

    def found(self, queryset: QuerySet[Event], term: str) -> QuerySet[Event]:
        """Return the events of a tenant or partner, or those whose id starts with the term."""
        for prefix, column in ((TENANT, "tenant_id"), (PARTNER, "partner_id")):
            if term.startswith(prefix):
                return queryset.filter(**{column: term.removeprefix(prefix)})
        return super().found(queryset, term) if EVENT_ID.fullmatch(term) else queryset.none()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Order a tenant's events by time, which is the index that finds them, else by key."""
        of_owner = request.GET.get("q", "").strip().startswith((TENANT, PARTNER))
        return ("-occurred_at", "-pk") if of_owner else ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Event]:
        """Return the rows without their bodies, which `body_shown` reads."""
        return super().get_queryset(request).defer("body")

    @admin.display(description="owner")
    def owner(self, event: Event) -> str:
        """Return kind and id of the owner whose sequence numbers the event."""
        return f"{event.owner_kind}/{event.owner_id}" if event.owner_id is not None else shown.NOTHING

    @admin.display(description="replay", boolean=True)
    def is_copy(self, event: Event) -> bool:
        """Return whether a replay made it, to repeat another event at one endpoint."""
        return event.replay_of is not None

    @admin.display(description="repeats")
    def original_link(self, event: Event) -> str:
        """Return a link to the event that it repeats, if there is one still."""
        original = by_pk(Event, [event.replay_of], ["public_id"]).get(event.replay_of)
        return shown.link("event", original.pk, original.public_id) if original else shown.NOTHING

    @admin.display(description="deliveries")
    def deliveries_link(self, event: Event) -> str:
        """Return a link to the event's deliveries."""
        return shown.search_link("delivery", event.public_id, "deliveries of this event")

    @admin.display(description="body")
    def body_shown(self, event: Event) -> str:
        """Return the exact envelope, while its outbox still has it."""
        content = read_contents(conf.current().DATABASE, [event.pk]).get(event.pk)
        return shown.pre(shown.text_of(content.body if content else None))
