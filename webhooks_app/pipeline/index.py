"""The Event index: rows for outbox entries, and the sender's own events that wait to be fanned out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.matching import EventFacts
from .dialect import Dialect
from .dispatch import HAS_WAITING, Entry
from .transactions import Tx, reading

_UNFANNED = "fanned_out_at IS NULL AND outbox_id IS NULL"


@dataclass(frozen=True, slots=True)
class Item:
    """An event to fan out. `key` is that of its index row, if any; an unfinished one goes on `after`."""

    public_id: str
    facts: EventFacts
    occurred_at: str
    recorded_at: str
    expires_at: str | None = None
    entry: Entry | None = None
    key: int | None = None
    after: int = 0

    @classmethod
    def of(cls, entry: Entry, partner_id: str | None, key: int | None, after: int) -> "Item":
        """Return the item of an outbox entry whose tenant belongs to this partner."""
        facts = EventFacts(
            type=entry.type,
            tenant_id=entry.tenant_id,
            partner_id=partner_id,
            identity_id=entry.identity_id,
            environment=entry.environment,
        )
        return cls(
            public_id=entry.event_id,
            facts=facts,
            occurred_at=entry.occurred_at,
            recorded_at=entry.recorded_at,
            expires_at=entry.expires_at,
            entry=entry,
            key=key,
            after=after,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """An index row that exists already."""

    key: int
    outbox_alias: str | None
    outbox_id: int | None
    finished: bool
    after: int


def read_known(tx: Tx, public_ids: Collection[str]) -> dict[str, Known]:
    """Return the index rows that these event ids have already."""
    condition, values = tx.dialect.among("public_id", sorted(public_ids))
    tx.execute(
        f"""SELECT public_id, id, outbox_alias, outbox_id, fanned_out_at IS NOT NULL, fan_out_cursor
        FROM webhooks_app_event WHERE {condition}""",
        values,
    )
    return {row[0]: Known(row[1], row[2], row[3], bool(row[4]), row[5]) for row in tx.rows()}


def look(alias: str) -> tuple[bool, bool]:
    """Whether outbox entries wait in the delivery database, and whether events of the sender itself do."""
    with reading(alias) as tx:
        tx.execute(
            f"""SELECT {HAS_WAITING},
            EXISTS (SELECT 1 FROM webhooks_app_event WHERE {_UNFANNED})"""
        )
        entries, own = tx.row()
        return bool(entries), bool(own)


def has_unfanned(tx: Tx) -> bool:
    """Whether any of the sender's own events waits to be fanned out."""
    tx.execute(f"SELECT 1 FROM webhooks_app_event WHERE {_UNFANNED} LIMIT 1")
    return tx.row() is not None


def read_unfanned(tx: Tx, limit: int) -> list[Item]:
    """Read the sender's own events that were not fanned out, oldest first."""
    carried = tx.dialect.carried
    tx.execute(
        f"""SELECT public_id, type, tenant_id, partner_id, environment, about_endpoint_id,
        {carried("occurred_at")}, {carried("recorded_at")}, id, fan_out_cursor
        FROM webhooks_app_event WHERE {_UNFANNED} ORDER BY id LIMIT %s""",
        [limit],
    )
    return [_own(row) for row in tx.rows()]


def _own(row: Sequence[Any]) -> Item:
    facts = EventFacts(
        type=row[1],
        tenant_id=row[2],
        partner_id=row[3],
        identity_id=None,
        environment=row[4],
        about=str(row[5] or ""),
        notify_tenant=row[2] is not None,
    )
    return Item(row[0], facts, occurred_at=row[6], recorded_at=row[7], key=row[8], after=row[9])


_TYPES = {
    "public_id": "text",
    "type": "text",
    "tenant_id": "text",
    "partner_id": "text",
    "identity_id": "text",
    "owner_kind": "text",
    "owner_id": "text",
    "sequence": "bigint",
    "subject": "text",
    "environment": "text",
    "occurred_at": "timestamptz",
    "recorded_at": "timestamptz",
    "expires_at": "timestamptz",
    "outbox_alias": "text",
    "outbox_id": "bigint",
    "fanned_out_at": "timestamptz",
    "fan_out_cursor": "bigint",
}


def insert_events(tx: Tx, alias: str, rows: Sequence[tuple[Item, datetime | None, int]]) -> dict[str, int]:
    """Insert index rows (item, fanned-out time or None, cursor) and return their keys by event id."""
    values = [_row(tx.dialect, alias, row) for row in rows]
    if tx.dialect.returns_many:
        tx.insert("webhooks_app_event", _TYPES, values, tail="RETURNING public_id, id")
        return dict(tx.rows())
    tx.insert("webhooks_app_event", _TYPES, values)
    condition, ids = tx.dialect.among("public_id", [item.public_id for item, _, _ in rows])
    tx.execute(f"SELECT public_id, id FROM webhooks_app_event WHERE {condition}", ids)
    return dict(tx.rows())


def _row(dialect: Dialect, alias: str, row: tuple[Item, datetime | None, int]) -> tuple[Any, ...]:
    item, fanned_out_at, after = row
    entry = item.entry
    if entry is None:
        raise ValueError("only outbox entries get an index row here")
    return (
        entry.event_id,
        entry.type,
        entry.tenant_id,
        item.facts.partner_id,
        entry.identity_id,
        entry.owner_kind,
        entry.owner_id,
        entry.sequence,
        entry.subject,
        entry.environment,
        dialect.time(entry.occurred_at),
        dialect.time(entry.recorded_at),
        dialect.time(entry.expires_at),
        alias,
        entry.id,
        dialect.time(fanned_out_at),
        after,
    )


def note_progress(tx: Tx, key: int, *, after: int, finished_at: datetime | None) -> None:
    """Store how far an event's fan-out has come."""
    tx.execute(
        "UPDATE webhooks_app_event SET fan_out_cursor = %s, fanned_out_at = %s WHERE id = %s",
        [after, tx.dialect.time(finished_at), key],
    )
