"""The outboxes' part of an erasure: entries are deleted in short transactions of their own databases."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from django.db import DatabaseError, InterfaceError
from django.db.models import Max
from django.utils.connection import ConnectionDoesNotExist

from .. import conf
from ..models import Event
from ..pipeline import clock, doorbell
from ..pipeline.locks import fan_out_lock, wait_for
from ..pipeline.outbox_entries import Labelled, count_labelled, delete_entries, last_key, read_labelled
from ..pipeline.transactions import Tx, short
from .erase_progress import Progress
from .key_ranges import walk

T = TypeVar("T")

BATCH = 500

Entry = tuple[int, str]


class OutboxUnreachable(Exception):
    """A database of the outbox does not answer, or the settings do not name it any more; `why` in a word."""

    def __init__(self, outbox_alias: str, why: str) -> None:
        super().__init__(f"{outbox_alias}: {why}")
        self.outbox_alias = outbox_alias
        self.why = why


def empty_outboxes(progress: Progress) -> int:
    """Delete the next entries with the labels, dispatched or not, of every outbox that is not empty yet.

    Returns:
        How many of them had not been fanned out.
    """
    waiting = 0
    for outbox_alias in list(progress.outboxes):
        try:
            waiting += _empty(progress, outbox_alias)
        except OutboxUnreachable as error:
            progress.unreachable[outbox_alias] = error.why
            del progress.outboxes[outbox_alias]
    return waiting


def _empty(progress: Progress, outbox_alias: str) -> int:
    after, last = progress.outboxes[outbox_alias]
    if last is None:
        last = reach(outbox_alias, last_key)

    def read(low: int, high: int, limit: int) -> Sequence[Labelled]:
        def look(tx: Tx) -> list[Labelled]:
            return read_labelled(tx, progress.labels, progress.before, between=(low, high), limit=limit)

        return reach(outbox_alias, look)

    found = walk(read, lambda entry: entry.id, after=after, last=last, limit=BATCH)
    delete(outbox_alias, [(entry.id, entry.event_id) for entry in found.rows])
    if found.reached >= last:
        del progress.outboxes[outbox_alias]
    else:
        progress.outboxes[outbox_alias] = (found.reached, last)
    return sum(entry.waits for entry in found.rows)


def delete(outbox_alias: str, entries: Sequence[Entry]) -> None:
    """Delete entries, given by key and event id. Raises OutboxUnreachable."""
    ids, event_ids = [key for key, _ in entries], [event_id for _, event_id in entries]
    reach(outbox_alias, lambda tx: delete_entries(tx, ids, event_ids))


def count_waiting(labels: Mapping[str, str]) -> int:
    """Return how many entries with the labels are not fanned out, in those outboxes that answer."""
    count = 0
    for outbox_alias in conf.current().OUTBOX_DATABASES:
        with suppress(OutboxUnreachable):
            count += reach(outbox_alias, lambda tx: count_labelled(tx, labels))
    return count


def latest_clock() -> datetime:
    """Return the time of that database whose clock is ahead: what was recorded by now is not later."""
    moments = [clock.db_now(conf.current().DATABASE)]
    for outbox_alias in conf.current().OUTBOX_DATABASES:
        with suppress(OutboxUnreachable):
            moments.append(reach(outbox_alias, lambda tx: clock.db_now(tx.alias)))
    # Some clocks are rounded to a millisecond.
    return max(moments) + timedelta(milliseconds=1)


def settle(alias: str) -> int:
    """Wait for fan-outs that may have read what is deleted now; return the key of the last event."""
    for outbox_alias in conf.current().OUTBOX_DATABASES:
        short(alias, partial(wait_for, name=fan_out_lock(outbox_alias)))
    # Whoever came while it was locked has gone away again.
    doorbell.ring(fan_out=True)
    return Event.objects.using(alias).aggregate(last=Max("pk"))["last"] or 0


def reach(outbox_alias: str, work: Callable[[Tx], T]) -> T:
    """Do it in a short transaction of that database, which other databases than the delivery's may refuse.

    Raises OutboxUnreachable.
    """
    try:
        return short(outbox_alias, work)
    except (DatabaseError, InterfaceError, ConnectionDoesNotExist) as error:
        if outbox_alias == conf.current().DATABASE:
            raise
        raise OutboxUnreachable(outbox_alias, type(error).__name__) from error
