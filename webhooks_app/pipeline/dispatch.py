"""Outbox entries on their way: what is read of them, what is noted on them, and those that fail."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ..models import OutboxEntry
from ..signals import entry_set_aside
from .dialect import Dialect
from .transactions import Tx, reading, short

logger = logging.getLogger("webhooks_app.pipeline")

MAX_EVENTS = 500
TRIES = 3

_COLUMNS = """id, event_id, type, owner_kind, owner_id, sequence, tenant_id, identity_id, subject,
environment, {occurred}, {recorded}, {expires}, {partner}"""
# The tables of tenants are where the deliveries are; in another database they are empty.
_PARTNER = "(SELECT t.partner_id FROM webhooks_app_tenant t WHERE t.id = webhooks_app_outboxentry.tenant_id)"
WAITING = "dispatched_at IS NULL AND set_aside_at IS NULL"
# Not EXISTS, which forgets the order: only the index of what waits has it, whatever the statistics say.
HAS_WAITING = f"""(SELECT 1 FROM webhooks_app_outboxentry WHERE {WAITING}
ORDER BY tenant_id, id LIMIT 1) IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class Entry:
    """An outbox row on its way, without its bytes. Its times are only carried on, as text."""

    id: int
    event_id: str
    type: str
    owner_kind: str | None
    owner_id: str | None
    sequence: int | None
    tenant_id: str | None
    identity_id: str | None
    subject: str | None
    environment: str
    occurred_at: str
    recorded_at: str
    expires_at: str | None
    partner_id: str | None


def columns(dialect: Dialect, *, partners: bool) -> str:
    """Return the columns of an Entry; with `partners` the tenants' partners are read with them."""
    return _COLUMNS.format(
        occurred=dialect.carried("occurred_at"),
        recorded=dialect.carried("recorded_at"),
        expires=dialect.carried("expires_at"),
        partner=_PARTNER if partners else "NULL",
    )


def read_entry(tx: Tx, entry_id: int, *, partners: bool = False) -> list[Entry]:
    """Read one entry, if it still waits."""
    tx.execute(
        f"""SELECT {columns(tx.dialect, partners=partners)} FROM webhooks_app_outboxentry
        WHERE {WAITING} AND id = %s""",
        [entry_id],
    )
    return [Entry(*row) for row in tx.rows()]


def has_waiting(alias: str) -> bool:
    """Whether any committed entry waits; asked without the lock, after the last batch."""
    with reading(alias) as tx:
        tx.execute(f"SELECT {HAS_WAITING}")
        return bool(tx.row()[0])


def mark_dispatched(tx: Tx, ids: Sequence[int], now: datetime) -> None:
    """Note that these entries have their deliveries."""
    if ids:
        condition, values = tx.dialect.among("id", sorted(ids))
        tx.execute(
            f"""UPDATE webhooks_app_outboxentry SET dispatched_at = %s
            WHERE {condition} AND dispatched_at IS NULL""",
            [tx.dialect.time(now), *values],
        )


def note_failure(outbox_alias: str, entry: Entry, error: Exception, now: datetime) -> None:
    """Count a failed fan-out; the third sets the entry aside, so that it blocks nobody."""
    logger.error("fan-out of event %s failed: %s", entry.event_id, type(error).__name__, exc_info=error)
    if short(outbox_alias, lambda tx: _count(tx, entry.id, now, limit=TRIES)):
        _tell(outbox_alias, entry, f"after {TRIES} failed fan-outs")


def set_aside(outbox_alias: str, entry: Entry, now: datetime) -> None:
    """Set an entry aside at once: its event id belongs to another row or database."""
    if short(outbox_alias, lambda tx: _count(tx, entry.id, now, limit=0)):
        _tell(outbox_alias, entry, "because another event has its id")


def _tell(outbox_alias: str, entry: Entry, why: str) -> None:
    logger.error("event %s of outbox %s is set aside %s", entry.event_id, outbox_alias, why)
    entry_set_aside.send_robust(sender=OutboxEntry, event_id=entry.event_id, outbox_alias=outbox_alias)


def _count(tx: Tx, entry_id: int, now: datetime, *, limit: int) -> bool:
    tx.execute(
        """UPDATE webhooks_app_outboxentry SET failures = failures + 1,
        set_aside_at = CASE WHEN failures + 1 >= %s THEN %s ELSE set_aside_at END
        WHERE id = %s AND set_aside_at IS NULL RETURNING set_aside_at""",
        [limit, tx.dialect.time(now), entry_id],
    )
    row = tx.row()
    return row is not None and row[0] is not None
