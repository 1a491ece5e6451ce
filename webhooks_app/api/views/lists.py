"""What the lists share: filters that are columns, a time span, and pages."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model, Q, QuerySet
from rest_framework.response import Response

from ..cursors import Listing
from ..pagination import Floor, page_of
from .base import ApiView

Row = TypeVar("Row", bound=Model)
_PAGING = frozenset({"limit", "cursor"})


class ListView(ApiView, Generic[Row]):
    """Answers with a page of rows.

    ``exact``        query parameter -> column that must equal it
    ``time_column``  what `since` (inclusive) and `until` (exclusive) compare with
    ``keys``         columns to order by, the highest first; together unique within a list
    """

    exact: ClassVar[Mapping[str, str]] = {}
    time_column: ClassVar[str] = "created_at"
    keys: ClassVar[Sequence[str]] = ("pk",)

    def page(
        self,
        rows: QuerySet[Row],
        *,
        keys: Sequence[str] | None = None,
        floor: Floor | None = None,
        **context: Any,
    ) -> Response:
        """Return the page that the query asks for; one query to the database, and one for the floor."""
        found, following = page_of(
            rows.filter(self.condition()),
            self.listing(),
            limit=self.query["limit"],
            cursor=self.query.get("cursor"),
            keys=keys or self.keys,
            floor=floor,
        )
        return self.answer({"data": found, "next_cursor": following}, **context)

    def listing(self) -> Listing:
        """Return what the cursors of this list are bound to."""
        return Listing(self.actor, self.request.path, {name: str(self.given[name]) for name in self.given})

    @property
    def given(self) -> Mapping[str, Any]:
        """The filters that the query names."""
        return {name: value for name, value in self.query.items() if name not in _PAGING}

    def condition(self) -> Q:
        """Return the filters of the query as one condition."""
        columns = {
            **self.exact,
            "since": f"{self.time_column}__gte",
            "until": f"{self.time_column}__lt",
        }
        return Q(**{column: self.query[name] for name, column in columns.items() if name in self.query})
