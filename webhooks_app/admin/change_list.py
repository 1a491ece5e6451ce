"""Lists over tables of any size: capped counts, no sorting or filtering that would read a whole table."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

if TYPE_CHECKING:
    from .base import WebhooksAdmin

    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

# A thousand pages; what lies deeper is found by id, tenant or endpoint.
COUNT_CAP = 100_000
# Columns without an index are filtered among this many of the newest rows that the search found.
RECENT = 50_000


class CappedPaginator(_Paginator):
    """Counts no further than COUNT_CAP, so that a page costs the same however many rows there are."""

    @cached_property
    def count(self) -> int:
        """Rows, at most COUNT_CAP."""
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:COUNT_CAP].count()


class RecentFilter(admin.SimpleListFilter):
    """A choice of values for a column without an index; BoundedChangeList applies it to the newest rows."""

    field: str
    choices_of_field: tuple[tuple[str, str], ...]

    def __init__(self, *args: Any) -> None:
        self.title = f"{self.field.replace('_', ' ')} (newest {RECENT:,})"
        super().__init__(*args)

    def lookups(self, request: HttpRequest, model_admin: Any) -> tuple[tuple[str, str], ...]:
        """Return the choices; they come from the model, never from the rows."""
        return self.choices_of_field

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Leave the rows as they are: the search has to come first."""
        return queryset

    def condition(self) -> dict[str, Any]:
        """Return the chosen condition, {} when all rows are wanted."""
        value = self.value()
        return {} if value is None else {self.field: value}


def recent_filter(field: str, choices: Any) -> type[RecentFilter]:
    """Return a RecentFilter class for a column and its choices (pairs of value and label)."""
    # A value that is no choice must not reach the database.
    pairs = tuple((str(value), str(label)) for value, label in choices)
    return type(
        f"{field.title()}Filter",
        (RecentFilter,),
        {"field": field, "parameter_name": field, "choices_of_field": pairs},
    )


class BoundedChangeList(ChangeList):
    """A change list whose every query is bounded, and which fetches the rows' neighbours in one go each."""

    model_admin: "WebhooksAdmin[Any]"

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        """Return the rows: searched for by index first, then narrowed among the newest of them."""
        found = super().get_queryset(request, exclude_parameters)
        conditions: dict[str, Any] = {}
        for each in self.filter_specs:
            if isinstance(each, RecentFilter):
                conditions |= each.condition()
        return _newest(found).filter(**conditions) if conditions else found

    def get_results(self, request: HttpRequest) -> None:
        """Fetch the page, then what its rows point to."""
        super().get_results(request)
        rows = list(self.result_list)
        self.model_admin.fetch_neighbours(rows)
        self.result_list = rows


def _newest(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return the first RECENT of ordered rows, as a range: for a sliced subquery planners read the table."""
    column = str(rows.query.order_by[0]).lstrip("-")
    edge = list(rows.values_list(column, flat=True)[RECENT - 1 : RECENT])
    return rows.filter(**{f"{column}__gte": edge[0]}) if edge else rows
