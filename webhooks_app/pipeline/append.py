"""Step 1 of the path: drafts become outbox rows in the caller's transaction."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils.encoding import force_str
from django.utils.functional import Promise

from ..conf import Settings
from ..core import envelope
from ..exceptions import EventTooLarge, InvalidEvent
from ..ids import new_id
from .dialect import Dialect
from .draft import Draft
from .transactions import Tx, reading

logger = logging.getLogger("webhooks_app.pipeline")

# Tenant ('' for none), kind and id.
Owner = tuple[str, str, str]

_TYPES = {
    "event_id": "text",
    "type": "text",
    "owner_kind": "text",
    "owner_id": "text",
    "sequence": "bigint",
    "tenant_id": "text",
    "identity_id": "text",
    "subject": "text",
    "environment": "text",
    "body": "bytea",
    "occurred_at": "timestamptz",
    "expires_at": "timestamptz",
    "failures": "smallint",
}
_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class EventRef:
    """An event in the outbox; `created` is False when its id was there before."""

    id: str
    sequence: int | None
    created: bool


class _LostRaceError(Exception):
    """Another transaction committed one of the given event ids between our look and our insert."""


def append(alias: str, drafts: Sequence[Draft], settings: Settings) -> list[EventRef]:
    """Write the drafts to the outbox of database `alias`; one statement per table.

    Raises:
        InvalidEvent: for a value of `data` that is refused; the caller's transaction stays usable.
        EventTooLarge: for an envelope above MAX_BODY_BYTES.
    """
    named = [draft.event_id for draft in drafts if draft.event_id is not None]
    if not named:
        return _fresh(alias, drafts, settings)
    while True:
        try:
            with transaction.atomic(using=alias):
                return _append(alias, drafts, settings, known=_known(alias, named))
        except _LostRaceError:
            continue


def _fresh(alias: str, drafts: Sequence[Draft], settings: Settings) -> list[EventRef]:
    owner = _owner(drafts[0])
    if len(drafts) == 1 and owner is not None:
        with reading(alias) as tx:
            if tx.dialect.writes_in_with:
                return [_append_one(tx, drafts[0], owner, settings)]
    return _append(alias, drafts, settings, known={})


# The commonest emit in one trip to the database: draw the number, put it into the body, insert.
_ONE = """WITH drawn AS (INSERT INTO webhooks_app_ownersequence AS o (tenant_id, kind, owner_id, last)
VALUES (%s, %s, %s, 1) ON CONFLICT (tenant_id, kind, owner_id) DO UPDATE SET last = o.last + 1 RETURNING last)
INSERT INTO webhooks_app_outboxentry (event_id, type, owner_kind, owner_id, sequence, tenant_id, identity_id,
subject, environment, body, occurred_at, expires_at, failures)
SELECT %s, %s, %s, %s, last, %s, %s, %s, %s, %s || convert_to(last::text, 'UTF8') || %s, %s, %s, 0
FROM drawn RETURNING sequence"""


def _append_one(tx: Tx, draft: Draft, owner: Owner, settings: Settings) -> EventRef:
    event_id = new_id("evt")
    before, after = _parts(event_id, draft, settings)
    labels = (draft.tenant_id, draft.identity_id, draft.subject, draft.environment)
    times = (draft.occurred_at, draft.expires_at)
    tx.execute(_ONE, [*owner, event_id, draft.type, *owner[1:], *labels, before, after, *times])
    return EventRef(event_id, tx.row()[0], True)


def _known(alias: str, ids: Sequence[str]) -> dict[str, int | None]:
    with reading(alias) as tx:
        condition, values = tx.dialect.among("event_id", ids)
        tx.execute(f"SELECT event_id, sequence FROM webhooks_app_outboxentry WHERE {condition}", values)
        return dict(tx.rows())


def _append(
    alias: str, drafts: Sequence[Draft], settings: Settings, *, known: dict[str, int | None]
) -> list[EventRef]:
    ids = [draft.event_id or new_id("evt") for draft in drafts]
    fresh: dict[str, int] = {}
    for place, event_id in enumerate(ids):
        if event_id not in known:
            fresh.setdefault(event_id, place)
    bodies = {event_id: _parts(event_id, drafts[place], settings) for event_id, place in fresh.items()}
    with reading(alias) as tx:
        numbers = _sequences(tx, [_owner(drafts[place]) for place in fresh.values()])
        rows, sequences = [], dict(known)
        for event_id, place in fresh.items():
            owner = _owner(drafts[place])
            sequences[event_id] = number = None if owner is None else numbers[owner].pop()
            rows.append(
                _row(tx.dialect, event_id, drafts[place], _body(bodies[event_id], number), number=number)
            )
        _insert(tx, rows)
    return [
        EventRef(event_id, sequences[event_id], fresh.get(event_id) == place)
        for place, event_id in enumerate(ids)
    ]


def _parts(event_id: str, draft: Draft, settings: Settings) -> tuple[bytes, bytes]:
    try:
        parts = envelope.build_parts(
            id=event_id,
            type=draft.type,
            api_version=settings.API_VERSION,
            occurred_at=draft.occurred_at,
            tenant_id=draft.tenant_id,
            identity_id=draft.identity_id,
            data=draft.data,
            max_bytes=settings.MAX_BODY_BYTES,
            default=_text_of_lazy,
        )
    except envelope.PayloadError as error:
        kind = EventTooLarge if error.code == EventTooLarge.code else InvalidEvent
        raise kind(draft.path + error.path, error.message) from None
    _warn_once(draft.type, len(parts[0]) + len(parts[1]), settings.WARN_BODY_BYTES)
    return parts


def _text_of_lazy(value: object) -> str:
    if isinstance(value, Promise):
        return force_str(value)
    raise TypeError


def _warn_once(event_type: str, size: int, limit: int) -> None:
    if size > limit and event_type not in _warned and len(_warned) < 1000:
        _warned.add(event_type)
        logger.warning(
            "events of type %s are above %d bytes (%d); receivers prefer small ones", event_type, limit, size
        )


def _owner(draft: Draft) -> Owner | None:
    return None if draft.owner is None else (draft.tenant_id or "", *draft.owner)


def _sequences(tx: Tx, owners: Sequence[Owner | None]) -> dict[Owner, list[int]]:
    """Draw numbers for the owners, in key order against deadlocks; the next to use comes last."""
    wanted = sorted(Counter(owner for owner in owners if owner is not None).items())
    if not wanted:
        return {}
    marks = ", ".join(["(%s, %s, %s, %s)"] * len(wanted))
    tx.execute(_DRAW.format(marks), [value for owner, count in wanted for value in (*owner, count)])
    last = {(tenant, kind, owner_id): number for tenant, kind, owner_id, number in tx.rows()}
    return {owner: list(range(last[owner], last[owner] - count, -1)) for owner, count in wanted}


# The upsert comes before the outbox insert, so an owner's outbox order is its sequence order.
_DRAW = """INSERT INTO webhooks_app_ownersequence AS o (tenant_id, kind, owner_id, last) VALUES {}
ON CONFLICT (tenant_id, kind, owner_id) DO UPDATE SET last = o.last + excluded.last
RETURNING tenant_id, kind, owner_id, last"""


def _body(parts: tuple[bytes, bytes], number: int | None) -> bytes:
    return b"%b%b%b" % (parts[0], b"null" if number is None else b"%d" % number, parts[1])


def _row(
    dialect: Dialect, event_id: str, draft: Draft, body: bytes, *, number: int | None
) -> tuple[Any, ...]:
    kind, owner_id = draft.owner or (None, None)
    return (
        event_id,
        draft.type,
        kind,
        owner_id,
        number,
        draft.tenant_id,
        draft.identity_id,
        draft.subject,
        draft.environment,
        body,
        dialect.time(draft.occurred_at),
        dialect.time(draft.expires_at),
        0,
    )


def _insert(tx: Tx, rows: list[tuple[Any, ...]]) -> None:
    if not rows:
        return
    tx.insert("webhooks_app_outboxentry", _TYPES, rows, tail="ON CONFLICT (event_id) DO NOTHING")
    if tx.cursor.rowcount != len(rows):
        raise _LostRaceError
