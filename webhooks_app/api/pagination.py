"""Pages by keyset: the rows after the last key seen, newest first; none skipped, none doubled, no count.

Where filters may leave few of many rows, a page looks at so many rows at most and then ends, short or empty,
with a cursor: no filter makes one request read a whole table.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from .cursors import Listing, read_cursor, write_cursor

Row = TypeVar("Row", bound=Model)
Key = Sequence[Any]
# Given the key of the last row seen, the lowest key that the page looks at; None = down to the end.
Floor = Callable[[Key | None], Key | None]

DEFAULT_LIMIT: Final = 25
MAX_LIMIT: Final = 100
LOOKED_AT: Final = 5_000


def page_of(
    rows: QuerySet[Row],
    listing: Listing,
    *,
    limit: int,
    cursor: str | None,
    keys: Sequence[str] = ("pk",),
    floor: Floor | None = None,
) -> tuple[list[Row], str | None]:
    """Return one page and the cursor of the next, None after the last.

    Args:
        rows: what the caller may see, filtered.
        keys: the columns to order by, the highest first; together unique among `rows`.
        floor: where to stop looking.

    Raises:
        ValidationError: naming `cursor`, when it is not one that this listing gave out.
        CursorExpired: it is too old.
    """
    now = timezone.now()
    last = None if cursor is None else read_cursor(cursor, listing, now)
    lowest = None if floor is None else floor(last)
    chosen = rows.filter(_between(keys, last, lowest)).order_by(*descending(keys))
    found = list(chosen[: limit + 1])
    page = found[:limit]
    if len(found) > limit:
        lowest = [getattr(page[-1], name) for name in keys]
    return page, None if lowest is None else write_cursor(lowest, listing, now)


def look_at_most(walk: QuerySet[Any], keys: Sequence[str]) -> Floor:
    """Return the floor after LOOKED_AT rows of `walk`, which an index gives in the order of `keys`."""

    def floor(last: Key | None) -> Key | None:
        below = walk.filter(_between(keys, last, None)).order_by(*descending(keys))
        return next(iter(below.values_list(*keys)[LOOKED_AT : LOOKED_AT + 1]), None)

    return floor


def descending(keys: Sequence[str]) -> list[str]:
    """Return what `order_by` takes."""
    return [f"-{key}" for key in keys]


def below(keys: Sequence[str], key: Key) -> Q:
    """Return the condition of the rows that follow `key`; its first part alone makes a range of an index."""
    (first, *rest), (value, *values) = keys, key
    if not rest:
        return Q(**{f"{first}__lt": value})
    return Q(**{f"{first}__lte": value}) & (Q(**{f"{first}__lt": value}) | below(rest, values))


def at_least(keys: Sequence[str], key: Key) -> Q:
    """Return the condition of the rows that do not follow `key`."""
    (first, *rest), (value, *values) = keys, key
    range_of_index = Q(**{f"{first}__gte": value})
    return (
        range_of_index & (Q(**{f"{first}__gt": value}) | at_least(rest, values)) if rest else range_of_index
    )


def _between(keys: Sequence[str], last: Key | None, lowest: Key | None) -> Q:
    condition = Q() if last is None else below(keys, last)
    return condition if lowest is None else condition & at_least(keys, lowest)
