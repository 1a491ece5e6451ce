"""Ranges of keys: every row once, in order, however the table is filled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.actions import key_ranges
from webhooks_app.actions.key_ranges import walk


def reader(keys: list[int], asked: list[tuple[int, int]]):
    def read(low: int, high: int, limit: int) -> list[int]:
        asked.append((low, high))
        return [key for key in sorted(keys) if low < key <= high][:limit]

    return read


@given(
    keys=st.sets(st.integers(1, 60_000), max_size=200),
    limit=st.integers(1, 50),
    last=st.integers(0, 60_000),
)
def test_every_row_comes_once_and_in_order(keys: set[int], limit: int, last: int) -> None:
    read = reader(sorted(keys), [])
    seen: list[int] = []
    after = 0
    while after < last:
        found = walk(read, int, after=after, last=last, limit=limit)
        assert found.reached > after
        assert len(found.rows) <= limit
        seen += found.rows
        after = found.reached
    assert seen == [key for key in sorted(keys) if key <= last]


def test_ranges_grow_where_nothing_is_found_and_stop_growing() -> None:
    asked: list[tuple[int, int]] = []
    walk(reader([], asked), int, after=0, last=10**6, limit=500)
    sizes = [high - low for low, high in asked]
    assert sizes[:4] == [key_ranges.FIRST, *(key_ranges.FIRST * 4**n for n in (1, 2, 3))]
    assert max(sizes) == key_ranges.LARGEST
    assert asked[-1][1] == 10**6


def test_it_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_ranges, "PATIENCE", -1.0)
    asked: list[tuple[int, int]] = []
    found = walk(reader([], asked), int, after=5, last=10**9, limit=500)
    assert (found.rows, len(asked)) == ([], 1)
    assert found.reached == 5 + key_ranges.FIRST
