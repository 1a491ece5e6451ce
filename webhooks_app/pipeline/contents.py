"""Step 3b reads what to send, outside any transaction: the bytes live in the outbox that recorded them."""

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from django.db import DatabaseError, InterfaceError, connections
from django.utils.connection import ConnectionDoesNotExist

from .retention import days_of
from .transactions import is_passing, reading
from .work import Content

DaysOf = Callable[[str | None, int | None], int]

_JOINED = """SELECT e.id, e.public_id, e.type, COALESCE(e.body, o.body), e.outbox_alias, e.outbox_id,
e.tenant_id, (SELECT t.retention_days FROM webhooks_app_tenant t WHERE t.id = e.tenant_id)
FROM webhooks_app_event e LEFT JOIN webhooks_app_outboxentry o ON o.id = e.outbox_id AND e.outbox_alias = %s
AND o.event_id = e.public_id WHERE {}"""


def read_contents(alias: str, event_ids: Collection[int]) -> dict[int, Content]:
    """Return what each event (by key) sends; one query, and one for each further outbox database.

    An event whose row or body is gone has `body` None; an outbox that was set back, so that the key is now
    another event's, counts as gone. An outbox database that does not answer, or that the settings do not name
    any more, leaves its events out, so that they are tried again.
    """
    with reading(alias) as tx:
        condition, values = tx.dialect.among("e.id", sorted(event_ids))
        tx.execute(_JOINED.format(condition), [alias, *values])
        rows = tx.rows()
    contents = {event_id: Content("", "", None) for event_id in event_ids}
    days = cache(days_of)  # the host's class is asked once for a tenant, not once for an event
    elsewhere: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        contents[row[0]] = _content(row, None if row[3] is None else bytes(row[3]), days)
        if row[3] is None and row[4] is not None and row[4] != alias:
            elsewhere.setdefault(row[4], []).append(row)
    for outbox_alias, waiting in elsewhere.items():
        _add(contents, outbox_alias, waiting, days)
    return contents


def _add(contents: dict[int, Content], outbox_alias: str, rows: list[tuple[Any, ...]], days: DaysOf) -> None:
    try:
        bodies = _bodies(outbox_alias, [row[5] for row in rows])
    except (DatabaseError, InterfaceError, ConnectionDoesNotExist) as error:
        if outbox_alias in connections:
            is_passing(outbox_alias, error)  # a lost connection is dialled anew by the next look
        for row in rows:
            del contents[row[0]]
        return
    for row in rows:
        contents[row[0]] = _content(row, bodies.get((row[5], row[1])), days)


def _content(row: tuple[Any, ...], body: bytes | None, days: DaysOf) -> Content:
    return Content(row[1], row[2], body, retention_days=days(row[6], row[7]))


def _bodies(outbox_alias: str, ids: list[int]) -> dict[tuple[int, str], bytes]:
    with reading(outbox_alias) as tx:
        condition, values = tx.dialect.among("id", sorted(ids))
        tx.execute(f"SELECT id, event_id, body FROM webhooks_app_outboxentry WHERE {condition}", values)
        return {(row[0], row[1]): bytes(row[2]) for row in tx.rows()}
