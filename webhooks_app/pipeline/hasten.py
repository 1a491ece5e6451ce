"""Open deliveries that wait for a later time come due: what they waited for is over."""

from collections.abc import Collection
from datetime import datetime

from .transactions import Tx


def hasten(tx: Tx, delivery_ids: Collection[int], now: datetime) -> int:
    """Make those of these deliveries due that wait for a later time; return how many.

    The state row of their endpoint is locked. What somebody is sending is left alone, and what is parked
    behind the head of its lane stays there.
    """
    if not delivery_ids:
        return 0
    condition, ids = tx.dialect.among("id", sorted(delivery_ids))
    moment = tx.dialect.time(now)
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET due_at = %s WHERE {condition} AND state = 'pending'
        AND due_at > %s AND (lease_until IS NULL OR lease_until < %s)""",
        [moment, *ids, moment, moment],
    )
    return int(tx.cursor.rowcount)
