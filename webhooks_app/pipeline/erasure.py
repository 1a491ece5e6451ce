"""Taking the payloads of events out of the delivery database: their bodies and what receivers answered.

Lock order: events by id, then the state rows of their endpoints, then deliveries, then attempts. Whoever
copies a body holds its event until the copy is committed, so one of the two sees the other: the copies of an
event are looked for after its row was locked. Whoever sends a body has claimed a delivery before it read the
body: what is claimed while the bodies go is `busy`, and its reply is forgotten once the claim is over.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ..core.states import DEAD_LETTERED
from .counts import count_dead
from .lanes import promote
from .transactions import Tx
from .work import Ended

ERROR = "event_unavailable"


@dataclass(frozen=True, slots=True)
class Target:
    """An event whose payload is to go. `is_away`: its outbox entry cannot be reached, so it stays known."""

    id: int
    tenant_id: str | None
    occurred_at: datetime
    is_away: bool = False


@dataclass(slots=True)
class Erased:
    """What was done: payloads removed, deliveries ended, and those that are being sent just now."""

    payloads: int = 0
    ended: list[Ended] = field(default_factory=list)
    busy: list[int] = field(default_factory=list)


def erase_events(tx: Tx, targets: Sequence[Target], now: datetime) -> Erased:
    """Remove bodies and replies of these events and of their copies, and end their open deliveries.

    A delivery that is being sent ends with its request, or when it comes due again.
    """
    keys = _lock_events(tx, [target.id for target in targets])
    keys += _lock_events(tx, _copies(tx, targets) - set(keys))
    away = {target.id for target in targets if target.is_away}
    payloads = _drop(tx, set(keys) - away)
    _end_fan_out(tx, keys, now)
    condition, ids = tx.dialect.among("event_id", sorted(keys))
    tx.execute(f"SELECT id, endpoint_id FROM webhooks_app_delivery WHERE {condition}", ids)
    erased = _forget(tx, tx.rows(), now)
    erased.payloads = payloads
    return erased


def forget_deliveries(tx: Tx, delivery_ids: Collection[int], now: datetime) -> Erased:
    """End what is open of these deliveries, whose events have no body any more, and forget their replies."""
    condition, ids = tx.dialect.among("id", sorted(delivery_ids))
    tx.execute(f"SELECT id, endpoint_id FROM webhooks_app_delivery WHERE {condition}", ids)
    return _forget(tx, tx.rows(), now)


def _lock_events(tx: Tx, event_ids: Collection[int]) -> list[int]:
    if not event_ids:
        return []
    condition, ids = tx.dialect.among("id", sorted(event_ids))
    tx.execute(
        f"SELECT id FROM webhooks_app_event WHERE {condition} ORDER BY id {tx.dialect.lock_row}",
        ids,
    )
    return [row[0] for row in tx.rows()]


_TARGETS: Final = {"original": "bigint", "tenant": "text", "occurred": "timestamptz"}
# A copy has its original's tenant and time: that is the index which finds it.
_COPIES: Final = """SELECT e.id FROM {} JOIN webhooks_app_event e ON e.occurred_at = v.occurred
AND e.tenant_id {} AND e.replay_of = v.original"""


def _copies(tx: Tx, targets: Sequence[Target]) -> set[int]:
    """Return the copies of these events; nobody can commit another one meanwhile."""
    found: set[int] = set()
    for is_none, which in ((False, "= v.tenant"), (True, "IS NULL")):
        rows = [
            (each.id, each.tenant_id, tx.dialect.time(each.occurred_at))
            for each in targets
            if (each.tenant_id is None) is is_none
        ]
        if rows:
            item, values = tx.dialect.values(_TARGETS, rows)
            tx.execute(_COPIES.format(item, which), values)
            found.update(row[0] for row in tx.rows())
    return found


def _drop(tx: Tx, event_ids: Collection[int]) -> int:
    condition, ids = tx.dialect.among("id", sorted(event_ids))
    tx.execute(
        f"""UPDATE webhooks_app_event SET body = NULL, outbox_alias = NULL, outbox_id = NULL
        WHERE {condition} AND (body IS NOT NULL OR outbox_id IS NOT NULL)""",
        ids,
    )
    return int(tx.cursor.rowcount)


def _end_fan_out(tx: Tx, event_ids: Collection[int], now: datetime) -> None:
    """Let no more endpoints have these events."""
    condition, ids = tx.dialect.among("id", sorted(event_ids))
    tx.execute(
        f"UPDATE webhooks_app_event SET fanned_out_at = %s WHERE {condition} AND fanned_out_at IS NULL",
        [tx.dialect.time(now), *ids],
    )


def _forget(tx: Tx, rows: Sequence[tuple[int, int]], now: datetime) -> Erased:
    """Do what there is to do about deliveries (key, endpoint's key)."""
    if not rows:
        return Erased()
    deliveries = sorted(row[0] for row in rows)
    _lock_states(tx, sorted({row[1] for row in rows}))
    busy = _lock_deliveries(tx, deliveries, now)
    ended = _end(tx, deliveries, now)
    _fence(tx, deliveries, now)
    _forget_replies(tx, deliveries)
    return Erased(ended=ended, busy=busy)


def _lock_states(tx: Tx, endpoint_ids: Sequence[int]) -> None:
    condition, ids = tx.dialect.among("endpoint_id", endpoint_ids)
    tx.execute(
        f"""SELECT endpoint_id FROM webhooks_app_endpointstate WHERE {condition}
        ORDER BY endpoint_id {tx.dialect.lock_row}""",
        ids,
    )


def _lock_deliveries(tx: Tx, delivery_ids: Sequence[int], now: datetime) -> list[int]:
    """Lock these rows; return those that somebody is sending."""
    condition, ids = tx.dialect.among("id", delivery_ids)
    tx.execute(
        f"""SELECT id, COALESCE(lease_until >= %s, FALSE) FROM webhooks_app_delivery
        WHERE {condition} ORDER BY id {tx.dialect.lock_row}""",
        [tx.dialect.time(now), *ids],
    )
    return [row[0] for row in tx.rows() if row[1]]


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


def _fence(tx: Tx, delivery_ids: Sequence[int], now: datetime) -> None:
    """Take lapsed claims of ended deliveries away: a worker that wakes up is not to record its reply."""
    condition, ids = tx.dialect.among("id", delivery_ids)
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET lease_token = NULL, lease_until = NULL
        WHERE {condition} AND lease_until < %s""",
        [*ids, tx.dialect.time(now)],
    )


def _forget_replies(tx: Tx, delivery_ids: Sequence[int]) -> None:
    """A receiver may have answered with what it was sent."""
    condition, ids = tx.dialect.among("delivery_id", delivery_ids)
    tx.execute(
        f"UPDATE webhooks_app_attempt SET reply_body = %s, reply_headers = %s WHERE {condition}",
        [b"", "[]", *ids],
    )
