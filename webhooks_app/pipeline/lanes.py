"""Lanes: deliveries that go one after another, oldest position first.

A lease takes the oldest rows of a lane as a chain that one sender works through. A lane is blocked while its
head waits for its next attempt or is being sent; rows that came due behind it are parked (`due_at` NULL), for
they would hide the due rows of other lanes, and the tick would find them again and again. Only behind a head
that is being sent in the lane '' of strict order nothing is parked, as its turn comes in a moment; but for
what a change of the endpoint's ordering has left, there is no other lane.

Invariant: the pending row of a lane with the lowest position has a `due_at`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from .arrays import literal
from .transactions import Tx

Lane: TypeAlias = tuple[int, str]

STRICT = ""

CHAIN = 50
PARKED_AT_ONCE = 500

_ORDER = "state = 'pending' AND lane IS NOT NULL"
_HEADS = """SELECT {columns}, lane, COALESCE(due_at > %s, FALSE), COALESCE(lease_until >= %s, FALSE)
FROM webhooks_app_delivery WHERE endpoint_id = {endpoint} AND lane = {lane} AND {order}
ORDER BY position LIMIT %s"""
# Of the due range, not of the lane, which may have a million parked rows. What a worker that died held comes
# too: a claim that has lapsed hides others like any due row.
_DUE = """SELECT id, endpoint_id, lane FROM webhooks_app_delivery WHERE endpoint_id = {endpoint}
AND priority = 3 AND state = 'pending' AND due_at <= %s AND (lease_until IS NULL OR lease_until < %s)
ORDER BY due_at, id LIMIT %s"""
_OTHERS = """SELECT endpoint_id FROM webhooks_app_delivery WHERE endpoint_id = {endpoint} AND lane > ''
AND {order} ORDER BY lane LIMIT 1"""
_FIRST = """SELECT id, endpoint_id, due_at FROM webhooks_app_delivery WHERE endpoint_id = {endpoint}
AND lane = {lane} AND {order} ORDER BY position LIMIT %s"""
_MANY = "SELECT d.* FROM unnest({arrays}) AS q({names}) CROSS JOIN LATERAL ({question}) d"
_NAMES = ("endpoint", "lane")
_KINDS = ("bigint", "text")


@dataclass(frozen=True, slots=True)
class Row:
    """A pending row of a lane: the columns asked for, and what keeps it from being sent."""

    columns: tuple[Any, ...]
    is_later: bool
    is_leased: bool


def read_heads(tx: Tx, lanes: Sequence[Lane], columns: str, now: datetime) -> dict[Lane, list[Row]]:
    """Read the oldest rows of each lane, at most CHAIN; `columns` begins with id and endpoint_id."""
    moment = tx.dialect.time(now)
    found: dict[Lane, list[Row]] = {}
    question = _HEADS.replace("{columns}", columns)
    for row in _ask(tx, question, lanes, before=(moment, moment), after=(CHAIN,)):
        *asked, lane, is_later, is_leased = row
        each = Row(tuple(asked), bool(is_later), bool(is_leased))
        found.setdefault((asked[1], lane), []).append(each)
    return found


def park(tx: Tx, blocked: Mapping[Lane, Row], now: datetime) -> set[int]:
    """Take what is due in these lanes out of the due range, because nothing of it may be sent now.

    `blocked` names the row that each of them waits for.

    Returns:
        The endpoints that have more that is due.
    """
    busy = {lane for lane, row in blocked.items() if lane[1] == STRICT and row.is_leased}
    mixed = {row[0] for row in _ask(tx, _OTHERS, [(endpoint_id,) for endpoint_id, _ in sorted(busy)])}
    hiding = {lane for lane in blocked if lane not in busy or lane[0] in mixed}
    endpoints = sorted({endpoint_id for endpoint_id, _ in hiding})
    # Each time at least as many as a lease looks at, or those would be looked at again.
    most = max(CHAIN, PARKED_AT_ONCE // max(1, len(endpoints)))
    moment = tx.dialect.time(now)
    due = _ask(tx, _DUE, [(each,) for each in endpoints], after=(moment, moment, most))
    rows = [row for row in due if (row[1], row[2]) in hiding]
    if rows:
        condition, values = tx.dialect.among("id", sorted(row[0] for row in rows))
        tx.execute(f"UPDATE webhooks_app_delivery SET due_at = NULL WHERE {condition}", values)
    found, parked = (Counter(row[1] for row in some) for some in (due, rows))
    return {each for each in endpoints if found[each] == most or found[each] > parked[each]}


def promote(tx: Tx, lanes: Collection[Lane], now: datetime, *, most: int = 1) -> set[int]:
    """Restore the invariant after rows of these lanes ended or moved; the state rows are locked.

    `most` rows of a lane come due at once; more than one where all are to end.

    Returns:
        The endpoints that have a row due now because of it.
    """
    parked = [row for row in _ask(tx, _FIRST, sorted(set(lanes)), after=(most,)) if row[2] is None]
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

    Its marks are those of `before`, the lane's own (endpoint, lane), and `after`.
    """
    if not about:
        return []
    width = len(about[0])
    if tx.dialect.lateral:
        asked = question.format(endpoint="q.endpoint", lane="q.lane", order=_ORDER)
        arrays = ", ".join(f"%s::{kind}[]" for kind in _KINDS[:width])
        statement = _MANY.format(arrays=arrays, names=", ".join(_NAMES[:width]), question=asked)
        columns = zip(_KINDS, zip(*about, strict=True), strict=False)
        tx.execute(statement, [*(literal(kind, column) for kind, column in columns), *before, *after])
        return tx.rows()
    statement = question.format(endpoint="%s", lane="%s", order=_ORDER)
    rows: list[tuple[Any, ...]] = []
    for lane in about:
        tx.execute(statement, [*before, *lane, *after])
        rows += tx.rows()
    return rows
