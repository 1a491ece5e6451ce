"""Lanes: deliveries that go one after another, oldest position first.

A lease takes the oldest rows of a lane as a chain that one sender works through. A lane is blocked while its
head waits for its next attempt or is being sent; rows of a subject's lane that came due behind it are parked
(`due_at` NULL), so that they do not hide the due rows of others. The lane '' of a strictly ordered endpoint
parks nothing: there is nobody to hide.

Invariant: the pending row of a lane with the lowest position has a `due_at`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from .arrays import literal
from .transactions import Tx

Lane: TypeAlias = tuple[int, str]

CHAIN = 50
PARKED_AT_ONCE = 500

_ORDER = "state = 'pending' AND lane IS NOT NULL"
_HEADS = """SELECT {columns}, position, lane, COALESCE(due_at > %s, FALSE), COALESCE(lease_until >= %s, FALSE)
FROM webhooks_app_delivery WHERE endpoint_id = {endpoint} AND lane = {lane} AND {order}
ORDER BY position LIMIT %s"""
_BEHIND = """SELECT id FROM webhooks_app_delivery WHERE endpoint_id = {endpoint} AND lane = {lane}
AND position > {position} AND {order} AND due_at <= %s AND lease_token IS NULL ORDER BY position LIMIT %s"""
_FIRST = """SELECT id, endpoint_id, due_at FROM webhooks_app_delivery WHERE endpoint_id = {endpoint}
AND lane = {lane} AND {order} ORDER BY position LIMIT %s"""
_MANY = "SELECT d.* FROM unnest({arrays}) AS q({names}) CROSS JOIN LATERAL ({question}) d"
_NAMES = ("endpoint", "lane", "position")
_KINDS = ("bigint", "text", "bigint")


@dataclass(frozen=True, slots=True)
class Row:
    """A pending row of a lane: the columns asked for, its place, and what keeps it from being sent."""

    columns: tuple[Any, ...]
    position: int
    is_later: bool
    is_leased: bool


def read_heads(tx: Tx, lanes: Sequence[Lane], columns: str, now: datetime) -> dict[Lane, list[Row]]:
    """Read the oldest rows of each lane, at most CHAIN; `columns` begins with id and endpoint_id."""
    moment = tx.dialect.time(now)
    found: dict[Lane, list[Row]] = {}
    question = _HEADS.replace("{columns}", columns)
    for row in _ask(tx, question, lanes, before=(moment, moment), after=(CHAIN,)):
        *asked, position, lane, is_later, is_leased = row
        each = Row(tuple(asked), position, bool(is_later), bool(is_leased))
        found.setdefault((asked[1], lane), []).append(each)
    return found


def park(tx: Tx, heads: Sequence[tuple[int, str, int]], now: datetime) -> int:
    """Take what is due behind blocked heads (endpoint, lane, position) out of the due range.

    Returns:
        How many rows; PARKED_AT_ONCE per lane at most.
    """
    rows = _ask(tx, _BEHIND, heads, after=(tx.dialect.time(now), PARKED_AT_ONCE)) if heads else []
    ids = sorted(row[0] for row in rows)
    if ids:
        condition, values = tx.dialect.among("id", ids)
        tx.execute(f"UPDATE webhooks_app_delivery SET due_at = NULL WHERE {condition}", values)
    return len(ids)


def promote(tx: Tx, lanes: Collection[Lane], now: datetime, *, most: int = 1) -> set[int]:
    """Restore the invariant after rows of these lanes ended or moved; the state rows are locked.

    `most` rows of a lane come due at once; more than one where all are to end.

    Returns:
        The endpoints that have a row due now because of it.
    """
    parking = sorted({lane for lane in lanes if lane[1]})
    if not parking:
        return set()
    parked = [row for row in _ask(tx, _FIRST, parking, after=(most,)) if row[2] is None]
    if parked:
        condition, values = tx.dialect.among("id", sorted(row[0] for row in parked))
        tx.execute(
            f"UPDATE webhooks_app_delivery SET due_at = %s WHERE {condition}",
            [tx.dialect.time(now), *values],
        )
    return {row[1] for row in parked}


def _ask(
    tx: Tx,
    question: str,
    about: Sequence[tuple[Any, ...]],
    *,
    before: tuple[Any, ...] = (),
    after: tuple[Any, ...] = (),
) -> list[tuple[Any, ...]]:
    """Put a question about each lane, in one statement where the database can.

    Its marks are those of `before`, the lane's own (endpoint, lane, position), and `after`.
    """
    width = len(about[0])
    if tx.dialect.lateral:
        asked = question.format(endpoint="q.endpoint", lane="q.lane", position="q.position", order=_ORDER)
        arrays = ", ".join(f"%s::{kind}[]" for kind in _KINDS[:width])
        statement = _MANY.format(arrays=arrays, names=", ".join(_NAMES[:width]), question=asked)
        columns = zip(_KINDS, zip(*about, strict=True), strict=False)
        tx.execute(statement, [*(literal(kind, column) for kind, column in columns), *before, *after])
        return tx.rows()
    statement = question.format(endpoint="%s", lane="%s", position="%s", order=_ORDER)
    rows: list[tuple[Any, ...]] = []
    for lane in about:
        tx.execute(statement, [*before, *lane, *after])
        rows += tx.rows()
    return rows
