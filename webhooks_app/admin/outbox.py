"""Outbox entries: what was emitted and waits, and what a failing fan-out set aside."""

from urllib.parse import parse_qs

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from .. import conf
from ..actions.release_entries import release_entries
from ..core.ids import EVENT_ID
from ..models import OutboxEntry
from . import shown
from .base import MANAGE, EvidenceAdmin, staff_actor

MAX_RELEASED = 1_000


class DatabaseFilter(admin.SimpleListFilter):
    """Which outbox database, where there are several."""

    title = "database"
    parameter_name = "database"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        """Return the databases of the setting OUTBOX_DATABASES."""
        return [(alias, alias) for alias in conf.current().OUTBOX_DATABASES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OutboxEntry]) -> QuerySet[OutboxEntry]:
        """Leave the rows as they are: the page has chosen the database already."""
        return queryset


class ProgressFilter(admin.SimpleListFilter):
    """How far entries are; every choice but the dispatched ones has an index."""

    title = "progress"
    parameter_name = "progress"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("waiting", "waiting"), ("set_aside", "set aside")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[OutboxEntry]) -> QuerySet[OutboxEntry]:
        """Return the rows of the choice."""
        if self.value() == "waiting":
            return queryset.filter(dispatched_at__isnull=True, set_aside_at__isnull=True)
        if self.value() == "set_aside":
            return queryset.filter(set_aside_at__isnull=False)
        return queryset


@admin.register(OutboxEntry)
class OutboxEntryAdmin(EvidenceAdmin[OutboxEntry]):
    """One emitted event each."""

    list_display = (
        "event_id",
        "type",
        "tenant_id",
        "recorded_at",
        "dispatched_at",
        "failures",
        "set_aside_at",
    )
    list_filter = (ProgressFilter, DatabaseFilter)
    actions = ("release_selected",)
    search_help_text = "Id of an event or its beginning."
    prefix_fields = ("event_id",)
    shown_fields = (
        "event_id",
        "type",
        "tenant_id",
        "identity_id",
        "owner_kind",
        "owner_id",
        "sequence",
        "subject",
        "environment",
        "occurred_at",
        "recorded_at",
        "expires_at",
        "dispatched_at",
        "failures",
        "set_aside_at",
        "body_shown",
    )

    def alias(self, request: HttpRequest) -> str:
        """Return the outbox database that the list shows; a row's page is told by the list it came from."""
        carried = parse_qs(request.GET.get("_changelist_filters", "")).get("database", [""])[0]
        wanted = request.GET.get("database", carried)
        known = conf.current().OUTBOX_DATABASES
        return wanted if wanted in known else known[0]

    def found(self, queryset: QuerySet[OutboxEntry], term: str) -> QuerySet[OutboxEntry]:
        """Return the entries whose event id starts with the term."""
        return super().found(queryset, term) if EVENT_ID.fullmatch(term) else queryset.none()

    def get_queryset(self, request: HttpRequest) -> QuerySet[OutboxEntry]:
        """Return the rows; only a row's own page reads the body."""
        return super().get_queryset(request).defer("body")

    @admin.display(description="body")
    def body_shown(self, entry: OutboxEntry) -> str:
        """Return the exact envelope."""
        return shown.pre(shown.text_of(entry.body))

    def has_release_permission(self, request: HttpRequest) -> bool:
        """Whoever may change endpoints may have their events tried again."""
        return request.user.has_perm(MANAGE)

    @admin.action(description="Fan out again what was set aside", permissions=["release"])
    def release_selected(self, request: HttpRequest, queryset: QuerySet[OutboxEntry]) -> None:
        """Release the selected entries that were set aside."""
        ids = list(queryset.order_by("pk").values_list("pk", flat=True)[:MAX_RELEASED])
        released = release_entries(staff_actor(request), outbox_alias=self.alias(request), ids=ids)
        messages.success(request, f"{released} of {len(ids)} were set aside and wait for the fan-out again.")
