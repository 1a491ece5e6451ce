"""Taking the payloads of events out of the delivery database: their bodies and what receivers answered."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..core.states import DEAD_LETTERED
from .counts import count_dead
from .lanes import promote
from .transactions import Tx
from .work import Ended

ERROR = "event_unavailable"


def erase_events(tx: Tx, event_ids: Sequence[int], now: datetime) -> list[Ended]:
    """Remove bodies and replies of these events and end their open deliveries; return those that ended.

    A delivery that is being sent ends with its request, or when it comes due again.
    """
    condition, ids = tx.dialect.among("event_id", sorted(event_ids))
    tx.execute(f"SELECT id, endpoint_id FROM webhooks_app_delivery WHERE {condition}", ids)
    rows = tx.rows()
    if rows:
        _lock_states(tx, sorted({row[1] for row in rows}))
    deliveries = sorted(row[0] for row in rows)
    ended = _end(tx, deliveries, now) if rows else []
    _forget_replies(tx, deliveries)
    condition, ids = tx.dialect.among("id", sorted(event_ids))
    tx.execute(
        f"UPDATE webhooks_app_event SET body = NULL, outbox_alias = NULL, outbox_id = NULL WHERE {condition}",
        ids,
    )
    return ended


def _lock_states(tx: Tx, endpoint_ids: Sequence[int]) -> None:
    condition, ids = tx.dialect.among("endpoint_id", endpoint_ids)
    tx.execute(
        f"""SELECT endpoint_id FROM webhooks_app_endpointstate WHERE {condition}
        ORDER BY endpoint_id {tx.dialect.lock_row}""",
        ids,
    )


def _end(tx: Tx, delivery_ids: Sequence[int], now: datetime) -> list[Ended]:
    condition, ids = tx.dialect.among("id", delivery_ids)
    moment = tx.dialect.time(now)
    epoch = tx.dialect.epoch
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET state = %s, last_error = %s, finished_at = %s, due_at = NULL,
        lease_token = NULL, lease_until = NULL
        WHERE {condition} AND state = 'pending' AND (lease_until IS NULL OR lease_until < %s)
        RETURNING id, endpoint_id, event_id, attempts, {epoch("occurred_at")}, {epoch("created_at")}, lane""",
        [str(DEAD_LETTERED), ERROR, moment, *ids, moment],
    )
    rows = tx.rows()
    ended = [_ended(row) for row in rows]
    count_dead(tx, ended)
    promote(tx, {(row[1], row[6]) for row in rows if row[6] is not None}, now)
    return ended


def _ended(row: tuple[Any, ...]) -> Ended:
    key, endpoint_id, event_id, attempts, occurred, created, _ = row
    return Ended(key, endpoint_id, event_id, str(DEAD_LETTERED), ERROR, attempts, occurred, created)


def _forget_replies(tx: Tx, delivery_ids: Sequence[int]) -> None:
    """A receiver may have answered with what it was sent."""
    if delivery_ids:
        condition, ids = tx.dialect.among("delivery_id", delivery_ids)
        tx.execute(
            f"UPDATE webhooks_app_attempt SET reply_body = %s, reply_headers = %s WHERE {condition}",
            [b"", "[]", *ids],
        )
