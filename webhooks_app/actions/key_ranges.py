"""Walking a table by its key in ranges that grow where little is found: each statement is short."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

FIRST = 4_096
LARGEST = 262_144
GROWTH = 4
PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Some rows in the order of their keys, and the key up to which there are no others."""

    rows: Sequence[T]
    reached: int


def walk(
    read: Callable[[int, int, int], Sequence[T]],
    key: Callable[[T], int],
    *,
    after: int,
    last: int,
    limit: int,
) -> Found[T]:
    """Collect at most `limit` rows with keys above `after` and up to `last`, for about half a second.

    Args:
        read: returns the rows with low < key <= high in their order, at most so many.
        key: of a row.
    """
    rows: list[T] = []
    size, until = FIRST, time.monotonic() + PATIENCE
    while after < last and len(rows) < limit:
        high = min(after + size, last)
        room = limit - len(rows)
        found = read(after, high, room)
        rows += found
        after = key(found[-1]) if len(found) == room else high
        size = min(size * GROWTH, LARGEST) if len(found) < room // GROWTH else size
        if time.monotonic() > until:
            break
    return Found(rows, after)
