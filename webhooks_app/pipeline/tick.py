"""The tick: finds what a lost hint left behind, and wakes it. One at a time, every few seconds."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, connections

from ..conf import current
from . import clock
from .dialect import Dialect, dialect_of
from .dispatch import has_waiting
from .locks import touch, try_lock
from .transactions import logger, short

LOCK = "tick"
AHEAD = timedelta(seconds=5)
PATIENCE = timedelta(seconds=30)
MOST = 5_000


@dataclass(slots=True)
class Found:
    """What a tick found: whether events wait for fan-out, endpoints due now, endpoints due in a moment."""

    fan_out: bool = False
    due: list[int] = field(default_factory=list)
    soon: dict[int, float] = field(default_factory=dict)


def look(alias: str) -> Found:
    """Look for waiting events and due deliveries; an endpoint that was just woken is left alone."""
    found = short(alias, lambda cursor: _look(cursor, alias), durable=False)
    found.fan_out = found.fan_out or any(_waits(outbox) for outbox in current().OUTBOX_DATABASES)
    return found


def _waits(outbox_alias: str) -> bool:
    try:
        return has_waiting(outbox_alias)
    except DatabaseError as error:
        logger.warning("outbox database %s does not answer: %s", outbox_alias, type(error).__name__)
        connections[outbox_alias].close()
        return False


def _look(cursor: Any, alias: str) -> Found:
    dialect = dialect_of(connections[alias])
    if not try_lock(cursor, dialect, LOCK):
        return Found()
    now = clock.db_now(alias)
    # Doctor reads it: the second at which a tick was last seen.
    touch(cursor, LOCK, int(now.timestamp()))
    found = Found(fan_out=_has_unfanned(cursor))
    moment, ahead = dialect.time(now), dialect.time(now + AHEAD)
    # In the order of the marks: due now, the two gates, due in a moment.
    cursor.execute(_DUE, [moment, moment, moment, moment, ahead, moment, MOST])
    rows = cursor.fetchall()
    found.due = [endpoint_id for endpoint_id, due in rows if due]
    found.soon = _waits_of(cursor, dialect, [endpoint_id for endpoint_id, due in rows if not due], now)
    _note(cursor, dialect, sorted(endpoint_id for endpoint_id, _ in rows), now + PATIENCE)
    return found


def _waits_of(cursor: Any, dialect: Dialect, endpoint_ids: list[int], now: datetime) -> dict[int, float]:
    """Return the seconds until the first delivery that comes due in a moment."""
    if not endpoint_ids:
        return {}
    condition, values = dialect.among("endpoint_id", endpoint_ids)
    cursor.execute(
        f"""SELECT endpoint_id, min(due_at) FROM webhooks_app_delivery WHERE {condition}
        AND state = 'pending' AND due_at > %s AND due_at <= %s GROUP BY endpoint_id""",
        [*values, dialect.time(now), dialect.time(now + AHEAD)],
    )
    soonest = {endpoint_id: dialect.moment(due_at) or now for endpoint_id, due_at in cursor.fetchall()}
    return {endpoint_id: (due_at - now).total_seconds() for endpoint_id, due_at in soonest.items()}


def _has_unfanned(cursor: Any) -> bool:
    cursor.execute(
        "SELECT 1 FROM webhooks_app_event WHERE fanned_out_at IS NULL AND outbox_id IS NULL LIMIT 1"
    )
    return cursor.fetchone() is not None


# The gates come first, so that a million deliveries held by a pause cost one look at their endpoint.
_OPEN = """(NOT s.enabled OR (s.paused_at IS NULL AND (s.hold_until IS NULL OR s.hold_until <= %s)))
AND (s.woken_until IS NULL OR s.woken_until <= %s)"""
_WAITING = """d.endpoint_id = s.endpoint_id AND d.state = 'pending' AND d.priority IN (0, 1, 2)
AND d.due_at <= %s AND (d.lease_until IS NULL OR d.lease_until < %s)"""
_DUE = f"""SELECT s.endpoint_id, EXISTS (SELECT 1 FROM webhooks_app_delivery d WHERE {_WAITING})
FROM webhooks_app_endpointstate s WHERE {_OPEN}
AND EXISTS (SELECT 1 FROM webhooks_app_delivery d WHERE {_WAITING}) LIMIT %s"""


def _note(cursor: Any, dialect: Dialect, endpoint_ids: list[int], until: datetime) -> None:
    if not endpoint_ids:
        return
    condition, values = dialect.among("endpoint_id", endpoint_ids)
    # Locked in id order first, as everywhere: an UPDATE alone locks in the order of its scan.
    cursor.execute(
        f"""SELECT 1 FROM webhooks_app_endpointstate WHERE {condition}
        ORDER BY endpoint_id {dialect.lock_row}""",
        values,
    )
    cursor.execute(
        f"UPDATE webhooks_app_endpointstate SET woken_until = %s WHERE {condition}",
        [dialect.time(until), *values],
    )
