"""What the lists share: filters that are columns, a time span, and pages."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from django.db.models import Model, QuerySet
from rest_framework.response import Response

from ..pagination import Listing, page_of
from .base import ApiView

Row = TypeVar("Row", bound=Model)
_PAGING = frozenset({"limit", "cursor"})


class ListView(ApiView, Generic[Row]):
    """Answers with a page of rows.

    ``exact``        query parameter -> column that must equal it
    ``time_column``  what `since` (inclusive) and `until` (exclusive) compare with
    ``key``          column unique within a list, by which it is ordered
    """

    exact: ClassVar[Mapping[str, str]] = {}
    time_column: ClassVar[str] = "created_at"
    key: ClassVar[str] = "pk"

    def page(self, rows: QuerySet[Row], **context: Any) -> Response:
        """Return the page that the query asks for; one query to the database."""
        given = self.request.query_params.dict()
        filters = {name: value for name, value in given.items() if name not in _PAGING}
        found, following = page_of(
            rows.filter(**self._conditions()),
            Listing(self.actor, self.request.path, filters),
            limit=self.query["limit"],
            cursor=self.query.get("cursor"),
            key=self.key,
        )
        return self.answer({"data": found, "next_cursor": following}, **context)

    def _conditions(self) -> dict[str, Any]:
        columns = {
            **self.exact,
            "since": f"{self.time_column}__gte",
            "until": f"{self.time_column}__lt",
        }
        return {column: self.query[name] for name, column in columns.items() if name in self.query}
