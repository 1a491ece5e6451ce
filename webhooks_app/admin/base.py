"""What all pages of this admin share: the right database, bounded lists, searches that use an index."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from django.contrib import admin
from django.contrib.admin import ShowFacets
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern

from .. import conf
from ..actions.actor import Actor, operator
from .change_list import BoundedChangeList, CappedPaginator

M = TypeVar("M", bound=Model)
MANAGE = "webhooks_app.change_endpoint"
MIN_PREFIX = 6

if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin
else:

    class _ModelAdmin(admin.ModelAdmin, Generic[M]):
        """Django's ModelAdmin is generic for type checkers only."""


def staff_actor(request: HttpRequest) -> Actor:
    """Return the staff member as an actor; the page has checked Django's permissions before."""
    return operator("staff", str(request.user.pk), request_id=getattr(request, "request_id", ""))


class WebhooksAdmin(_ModelAdmin[M]):
    """A list of any size in the delivery database."""

    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    # Any other order would sort the whole table.
    sortable_by = ()
    ordering = ("-pk",)
    list_per_page = 50
    list_max_show_all = 0
    exact_fields: ClassVar[Sequence[str]] = ()
    prefix_fields: ClassVar[Sequence[str]] = ()

    class Media:
        css = {"all": ["webhooks_app/admin.css"]}

    @property
    def urls(self) -> list[URLPattern]:
        """Return the pages, kept out of ATOMIC_REQUESTS: actions hold their own, short transactions.

        Some look a host up or send a request, which takes seconds; what they sent is not to be undone.
        """
        patterns: list[URLPattern] = self.get_urls()
        for pattern in patterns:
            pattern.callback._non_atomic_requests = set(connections)  # type: ignore[attr-defined]
        return patterns

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[BoundedChangeList]:
        """Return the bounded list."""
        return BoundedChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[M]:
        """Return the rows of the delivery database."""
        return super().get_queryset(request).using(self.alias(request))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> M | None:
        """Return the row, None when there is none. Raises Http404 for what PostgreSQL cannot compare."""
        if "\x00" in object_id:
            raise Http404("There is no such object.")
        return super().get_object(request, object_id, from_field)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, or act on what is selected; what can be no row's key counts as not selected."""
        if ACTION_CHECKBOX_NAME in request.POST:
            posted = request.POST.copy()
            kept = [each for each in posted.getlist(ACTION_CHECKBOX_NAME) if self._is_key(each)]
            posted.setlist(ACTION_CHECKBOX_NAME, kept)
            request.POST = posted  # type: ignore[assignment]
        return super().changelist_view(request, extra_context)

    def _is_key(self, given: str) -> bool:
        try:
            self.opts.pk.clean(given, None)
        except ValidationError:
            return False
        return "\x00" not in given

    def alias(self, request: HttpRequest) -> str:
        """Return the database to read."""
        return conf.current().DATABASE

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        """Return something, so that the search box appears; `found` does the searching."""
        return [*self.exact_fields, *self.prefix_fields] or ["pk"]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[M], search_term: str
    ) -> tuple[QuerySet[M], bool]:
        """Return the rows that the term names, and that none is doubled."""
        term = search_term.strip()
        # PostgreSQL's text knows no NUL.
        if not term or "\x00" in term:
            return (queryset.none() if term else queryset), False
        return self.found(queryset, term), False

    def found(self, queryset: QuerySet[M], term: str) -> QuerySet[M]:
        """Return the rows whose `exact_fields` equal the term or whose `prefix_fields` start with it."""
        wanted = Q()
        for name in self.exact_fields:
            wanted |= Q(**{name: term})
        for name in self.prefix_fields:
            wanted |= Q(**{name if len(term) < MIN_PREFIX else f"{name}__startswith": term})
        return queryset.filter(wanted)

    def fetch_neighbours(self, rows: Sequence[M]) -> None:
        """Attach to the rows of a page what their columns show of other tables."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the list's own filters only: a free look-up reads whole tables, and guesses hashes."""
        return lookup in {getattr(each, "parameter_name", each) for each in self.list_filter}

    def get_list_select_related(self, request: HttpRequest) -> Any:
        """Never join without being told to: a row whose neighbour was pruned would vanish."""
        return self.list_select_related or ()


class EvidenceAdmin(WebhooksAdmin[M]):
    """Rows that are evidence: nobody adds, changes or deletes them here."""

    shown_fields: ClassVar[Sequence[str]] = ()

    def get_fields(self, request: HttpRequest, obj: M | None = None) -> Any:
        """Return what a page shows."""
        return self.shown_fields

    def get_readonly_fields(self, request: HttpRequest, obj: M | None = None) -> Any:
        """Return everything."""
        return self.shown_fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        """Nobody."""
        return False


def by_pk(model: type[Model], pks: Iterable[Any], fields: Collection[str]) -> dict[Any, Any]:
    """Return rows of the delivery database by key, with the given columns; one query."""
    rows = model._default_manager.using(conf.current().DATABASE).only(*fields)
    return rows.in_bulk({pk for pk in pks if pk is not None})
