"""Step 2b of the path: one transaction turns outbox entries into Event rows, Deliveries and `dispatched_at`.

One at a time per outbox database. A batch ends at 500 events or 5,000 deliveries; an event with more
endpoints than that is cut by endpoint key and goes on with the next batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter

from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError

from . import clock
from .dispatch import MAX_EVENTS, Entry, mark_dispatched, note_failure, read_entries, set_aside
from .index import Item, insert_events, note_progress, read_known, read_unfanned
from .locks import next_positions, try_lock
from .plan import Plan, Planned, plan
from .subscribers import read_subscribers
from .tenancy import host, partners_of
from .transactions import Tx, is_passing, reading, short

OWN_EVENTS = "own events"

_DELIVERY = {
    "endpoint_id": "bigint",
    "event_id": "bigint",
    "position": "bigint",
    "occurred_at": "timestamptz",
    "expires_at": "timestamptz",
}
# `WHERE TRUE` keeps SQLite from reading ON CONFLICT as a join condition.
_INSERT = """INSERT INTO webhooks_app_delivery (endpoint_id, event_id, position, occurred_at, expires_at,
state, priority, due_at, attempts, step, deferrals, lapses, last_error, created_at)
SELECT endpoint_id, event_id, position, occurred_at, expires_at, 'pending', 0, {now}, 0, 0, 0, 0, '', {now}
FROM {values} WHERE TRUE ON CONFLICT (endpoint_id, event_id) DO NOTHING"""


@dataclass(slots=True)
class Batch:
    """What one transaction of fan-out did. `locked` is False when somebody else is at it.

    `failed` counts the entries that raised; they are tried again with the next hint, not at once.
    """

    locked: bool = True
    events: int = 0
    failed: int = 0
    endpoint_ids: set[int] = field(default_factory=set)
    more: bool = False
    elsewhere: list[int] = field(default_factory=list)
    aside: list[Entry] = field(default_factory=list)
    now: datetime | None = None


def fan_out_batch(alias: str, outbox_alias: str) -> Batch:
    """Fan out the next batch of one outbox database into the delivery database `alias`.

    An entry that raises is tried alone, counted, and set aside after three failures; the others go on.
    """
    try:
        return _batch(alias, outbox_alias)
    except Exception as error:  # whatever one entry raises must not stop the others
        return _one_by_one(alias, outbox_alias, error)


def fan_out_own(alias: str) -> Batch:
    """Fan out the next batch of events that the sender made itself."""
    return short(alias, _fan_out_own, durable=False)


def _fan_out_own(tx: Tx) -> Batch:
    now = try_lock(tx, f"fan_out:{OWN_EVENTS}")
    if now is None:
        return Batch(locked=False)
    items = read_unfanned(tx, MAX_EVENTS)
    return _write(tx, "", items, now) if items else Batch()


def _one_by_one(alias: str, outbox_alias: str, error: Exception) -> Batch:
    is_passing(outbox_alias, error)  # dials anew if that connection is what was lost
    with reading(outbox_alias) as outbox:
        entries = read_entries(outbox, MAX_EVENTS)
    if not entries:
        raise error
    done, faults = Batch(more=len(entries) == MAX_EVENTS), {}
    for entry in entries:
        try:
            single = _batch(alias, outbox_alias, only=entry.id)
        except Exception as fault:  # see above
            if isinstance(fault, _NOT_THE_ENTRY):
                raise
            faults[entry] = fault
            continue
        done.events += single.events
        done.endpoint_ids |= single.endpoint_ids
        done.more |= single.more
    _blame(outbox_alias, entries, faults)
    done.failed = len(faults)
    return done


# The database is away or not migrated: no entry is to blame.
_NOT_THE_ENTRY = (OperationalError, InterfaceError, ProgrammingError, InternalError)


def _blame(outbox_alias: str, entries: Sequence[Entry], faults: dict[Entry, Exception]) -> None:
    """Count the failures against the entries, unless all of several failed: then it is something else."""
    if len(faults) == len(entries) > 1:
        raise next(iter(faults.values()))
    for entry, fault in faults.items():
        note_failure(outbox_alias, entry, fault, clock.db_now(outbox_alias))


def _batch(alias: str, outbox_alias: str, *, only: int | None = None) -> Batch:
    same = alias == outbox_alias
    # The commit may lag only where entries and deliveries share it: across databases it must be on disk
    # before the other one says `dispatched`.
    batch = short(alias, lambda tx: _fan_out(tx, outbox_alias, only), durable=not same)
    if batch.elsewhere and batch.now:
        now, ids = batch.now, batch.elsewhere
        short(outbox_alias, lambda tx: mark_dispatched(tx, ids, now))
    # After the commit: whoever listens is not to hold up the fan-out, nor hear of what is undone.
    for entry in batch.aside:
        set_aside(outbox_alias, entry, clock.db_now(outbox_alias))
    return batch


def _fan_out(tx: Tx, outbox_alias: str, only: int | None) -> Batch:
    now = try_lock(tx, f"fan_out:{outbox_alias}")
    if now is None:
        return Batch(locked=False)
    entries = _read(tx, outbox_alias, only)
    if not entries:
        return Batch()
    items, finished, aside = _items(tx, outbox_alias, entries)
    batch = _write(tx, outbox_alias, items, now) if items else Batch()
    finished += batch.elsewhere
    batch.elsewhere, batch.aside, batch.now = [], aside, now
    batch.more |= len(entries) == MAX_EVENTS
    if tx.alias == outbox_alias:
        mark_dispatched(tx, finished, now)
    else:
        batch.elsewhere = finished
    return batch


def _read(tx: Tx, outbox_alias: str, only: int | None) -> list[Entry]:
    if tx.alias == outbox_alias:
        return read_entries(tx, MAX_EVENTS, only=only, partners=True)
    with reading(outbox_alias) as outbox:
        return read_entries(outbox, MAX_EVENTS, only=only)


def _items(tx: Tx, outbox_alias: str, entries: Sequence[Entry]) -> tuple[list[Item], list[int], list[Entry]]:
    """Return what is to be fanned out, the entries that had been before, and those whose id is taken."""
    known = read_known(tx, [entry.event_id for entry in entries])
    partners = _partners(tx, outbox_alias, entries)
    items, finished, aside = [], [], []
    for entry in entries:
        row = known.get(entry.event_id)
        if row is not None and (row.outbox_alias, row.outbox_id) != (outbox_alias, entry.id):
            aside.append(entry)
        elif row is not None and row.finished:
            finished.append(entry.id)
        else:
            partner = partners.get(entry.tenant_id or "")
            items.append(Item.of(entry, partner, row.key if row else None, row.after if row else 0))
    return items, finished, aside


def _partners(tx: Tx, outbox_alias: str, entries: Sequence[Entry]) -> dict[str, str]:
    if tx.alias == outbox_alias and host() is None:
        return {
            entry.tenant_id: entry.partner_id for entry in entries if entry.tenant_id and entry.partner_id
        }
    return partners_of(tx, {entry.tenant_id for entry in entries if entry.tenant_id is not None})


def _write(tx: Tx, outbox_alias: str, items: Sequence[Item], now: datetime) -> Batch:
    tenants = {item.facts.tenant_id for item in items if item.facts.tenant_id is not None}
    partners = {item.facts.partner_id for item in items if item.facts.partner_id is not None}
    subscribers = read_subscribers(tx, tenants, partners)
    planned = plan(items, subscribers)
    keys = _index(tx, outbox_alias, planned.events, now)
    _deliver(tx, planned, keys, now)
    return Batch(
        events=len(planned.events),
        endpoint_ids={endpoint_id for each in planned.events for endpoint_id in each.endpoint_ids},
        more=planned.cut,
        elsewhere=[each.item.entry.id for each in planned.events if each.finished and each.item.entry],
    )


def _index(tx: Tx, outbox_alias: str, events: Sequence[Planned], now: datetime) -> dict[str, int]:
    new = [each for each in events if each.item.key is None]
    keys = {each.item.public_id: each.item.key for each in events if each.item.key is not None}
    if new:
        rows = [(each.item, now if each.finished else None, each.reached) for each in new]
        keys |= insert_events(tx, outbox_alias, rows)
    for each in events:
        if each.item.key is not None:
            note_progress(tx, each.item.key, after=each.reached, finished_at=now if each.finished else None)
    return keys


def _deliver(tx: Tx, planned: Plan, keys: dict[str, int], now: datetime) -> None:
    if not planned.deliveries:
        return
    position = next_positions(tx.cursor, planned.deliveries)
    rows = []
    for each in planned.events:
        key = keys[each.item.public_id]
        times = tx.dialect.time(each.item.occurred_at), tx.dialect.time(each.item.expires_at)
        for endpoint_id in each.endpoint_ids:
            rows.append((endpoint_id, key, position, *times))
            position += 1
    # Two fan-outs that meet on the same rows lock them in the same order.
    rows.sort(key=itemgetter(0, 1))
    values, params = tx.dialect.values(_DELIVERY, rows)
    moment = tx.dialect.time(now)
    tx.execute(_INSERT.format(now="%s", values=values), [moment, moment, *params])
