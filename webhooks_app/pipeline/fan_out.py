"""Step 2b of the path: one transaction turns outbox entries into Event rows, Deliveries and `dispatched_at`.

One at a time per outbox database. A batch ends at 500 events or 5,000 deliveries; an event that does not fit
is cut by endpoint key and goes on with the next batch.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from . import clock
from .dispatch import MAX_EVENTS, Entry, mark_dispatched, read_entry, set_aside
from .index import Item, read_known, read_unfanned
from .locks import fan_out_lock, try_lock
from .plan import Plan, in_turn, plan
from .poison import blame, passes, sift
from .spread import spread
from .subscribers import read_subscribers
from .tenancy import host, partners_of
from .transactions import Tx, is_passing, reading, short
from .turns import Turn, read_turn

OWN_EVENTS = "own events"


# Where this process goes on in the outbox of a database while its tenants take turns; any value is right.
_after: dict[str, str | None] = {}


@dataclass(slots=True)
class Batch:
    """What one transaction of fan-out did. `locked` is False when somebody else is at it.

    `failed` counts the entries that raised; they are tried again with the next hint, not at once. `after` is
    where the next batch of this outbox starts, see `Turn`.
    """

    locked: bool = True
    events: int = 0
    failed: int = 0
    counts: Counter[int] = field(default_factory=Counter)
    more: bool = False
    after: str | None = None
    dispatched: list[int] = field(default_factory=list)
    aside: list[Entry] = field(default_factory=list)
    now: datetime | None = None

    @property
    def endpoint_ids(self) -> Collection[int]:
        """The endpoints that have new deliveries; `counts` says how many."""
        return self.counts.keys()

    def add(self, other: "Batch") -> None:
        """Count what another transaction did."""
        self.events += other.events
        self.counts += other.counts
        self.locked = self.locked and other.locked


def fan_out_batch(alias: str, outbox_alias: str) -> Batch:
    """Fan out the next batch of one outbox database into the delivery database `alias`.

    An entry that raises is tried alone, counted, and set aside after three failures; the others go on.
    """
    try:
        batch = _batch(alias, outbox_alias)
    except Exception as error:  # whatever one entry raises must not stop the others
        batch = _one_by_one(alias, outbox_alias, error)
    if batch.locked:
        _after[outbox_alias] = batch.after
    return batch


def fan_out_own(alias: str) -> Batch:
    """Fan out the next batch of events that the sender made itself."""
    return short(alias, _fan_out_own, durable=False)


def _fan_out_own(tx: Tx) -> Batch:
    now = try_lock(tx, fan_out_lock(OWN_EVENTS))
    if now is None:
        return Batch(locked=False)
    items = read_unfanned(tx, MAX_EVENTS)
    return _batch_of(_write(tx, "", items, now)) if items else Batch()


def _one_by_one(alias: str, outbox_alias: str, error: Exception) -> Batch:
    is_passing(outbox_alias, error)  # dials anew if that connection is what was lost
    with reading(outbox_alias) as outbox:
        turn = read_turn(outbox, MAX_EVENTS, _after.get(outbox_alias))
    if not turn.entries:
        raise error
    # Whatever comes of it, the next batch starts elsewhere.
    _after[outbox_alias] = turn.after
    done = Batch(more=turn.more, after=turn.after)
    faults, passed = sift(turn.entries, lambda entry: _alone(alias, outbox_alias, entry, done))
    control = None if passed else (lambda entry: _passes(alias, outbox_alias, entry))
    blame(outbox_alias, faults, control)
    done.failed = len(faults)
    return done


def _alone(alias: str, outbox_alias: str, entry: Entry, done: Batch) -> bool:
    """Fan out one entry to its end, before its owner's next; return whether nobody else is at it."""
    while True:
        single = _batch(alias, outbox_alias, only=entry.id)
        done.add(single)
        if not single.more:
            return single.locked


def _passes(alias: str, outbox_alias: str, entry: Entry) -> bool:
    def attempt(tx: Tx, bare: Entry) -> None:
        _write(tx, outbox_alias, _items(tx, outbox_alias, [bare])[0], clock.db_now(alias))

    return passes(alias, entry, attempt)


def _batch(alias: str, outbox_alias: str, *, only: int | None = None) -> Batch:
    same = alias == outbox_alias
    # The commit may lag only where entries and deliveries share it: across databases it must be on disk
    # before the other one says `dispatched`.
    batch = short(alias, lambda tx: _fan_out(tx, outbox_alias, only), durable=not same)
    if batch.dispatched and batch.now and not same:
        now, ids = batch.now, batch.dispatched
        short(outbox_alias, lambda tx: mark_dispatched(tx, ids, now))
    # After the commit: whoever listens is not to hold up the fan-out, nor hear of what is undone.
    for entry in batch.aside:
        set_aside(outbox_alias, entry, clock.db_now(outbox_alias))
    return batch


def _fan_out(tx: Tx, outbox_alias: str, only: int | None) -> Batch:
    now = try_lock(tx, fan_out_lock(outbox_alias))
    if now is None:
        return Batch(locked=False)
    turn = _read(tx, outbox_alias, only)
    if not turn.entries:
        return Batch()
    items, finished, aside = _items(tx, outbox_alias, turn.entries)
    planned = _write(tx, outbox_alias, in_turn(items, turn.tenants), now) if items else Plan()
    batch = _batch_of(planned)
    batch.more |= turn.more
    batch.after, batch.aside, batch.now = _next(turn, items, planned), aside, now
    batch.dispatched += finished
    if tx.alias == outbox_alias:
        mark_dispatched(tx, batch.dispatched, now)
    return batch


def _read(tx: Tx, outbox_alias: str, only: int | None) -> Turn:
    if tx.alias == outbox_alias:
        return _entries(tx, only, partners=True)
    with reading(outbox_alias) as outbox:
        return _entries(outbox, only)


def _entries(outbox: Tx, only: int | None, *, partners: bool = False) -> Turn:
    if only is None:
        return read_turn(outbox, MAX_EVENTS, _after.get(outbox.alias), partners=partners)
    entries = read_entry(outbox, only, partners=partners)
    return Turn(entries, [entry.tenant_id for entry in entries])


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


def _write(tx: Tx, outbox_alias: str, items: Sequence[Item], now: datetime) -> Plan:
    """Plan these items, which come in their turn, and write what they make in the order of the outbox."""
    tenants = {item.facts.tenant_id for item in items if item.facts.tenant_id is not None}
    partners = {item.facts.partner_id for item in items if item.facts.partner_id is not None}
    subscribers = read_subscribers(tx, tenants, partners)
    planned = plan(items, subscribers)
    events = sorted(planned.events, key=lambda each: each.item.entry.id if each.item.entry else 0)
    spread(tx, outbox_alias, events, orderings=subscribers.orderings, now=now)
    return planned


def _batch_of(planned: Plan) -> Batch:
    return Batch(
        events=len(planned.events),
        counts=Counter(chain.from_iterable(each.endpoint_ids for each in planned.events)),
        more=planned.cut,
        dispatched=[each.item.entry.id for each in planned.events if each.finished and each.item.entry],
    )


def _next(turn: Turn, items: Sequence[Item], planned: Plan) -> str | None:
    """Return where the next batch starts: behind the last tenant that had its turn, if not all had."""
    served = {each.item.facts.tenant_id for each in planned.events}
    if planned.cut and len(served) < len({item.facts.tenant_id for item in items}):
        return planned.events[-1].item.facts.tenant_id or ""
    return turn.after
