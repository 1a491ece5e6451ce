"""Ending open deliveries from outside of the path: in batches, and never one that is being sent."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from ..core.states import PENDING, State, move
from ..exceptions import Conflict
from ..models import Delivery
from ..pipeline import announce, clock, doorbell
from ..pipeline.counts import count_dead
from ..pipeline.lanes import promote
from ..pipeline.transactions import reading
from ..pipeline.work import Ended
from .locking import lock_state

BATCH = 500


@dataclass(frozen=True, slots=True)
class End:
    """How deliveries end: their state, and the error code that says why; "" leaves the last one."""

    state: State
    error: str = ""


def end_open(alias: str, endpoint_id: int, end: End, *, only: Collection[int] | None = None) -> int:
    """End up to 500 open deliveries of an endpoint in one transaction, those with a live lease excepted.

    Args:
        only: keys of the deliveries meant; None = any.

    Returns:
        How many were ended.
    """
    chosen = Q() if only is None else Q(pk__in=only)
    with transaction.atomic(using=alias):
        lock_state(alias, endpoint_id)
        now = clock.db_now(alias)
        batch = list(open_rows(alias, endpoint_id).filter(chosen, unleased(now))[:BATCH])
        end_rows(alias, batch, end, now)
    return len(batch)


def open_rows(alias: str, endpoint_id: int) -> QuerySet[Delivery]:
    """Return the open deliveries of an endpoint, in the order in which an index has them.

    For the first few in another order, or in none, databases may read the whole table.
    """
    rows = Delivery.objects.using(alias).filter(endpoint_id=endpoint_id, state=PENDING)
    return rows.order_by("priority", "due_at", "id")


def end_rows(alias: str, rows: Sequence[Delivery], end: End, now: datetime) -> None:
    """End open deliveries; their endpoints' state rows are locked, and nobody sends them."""
    if not rows:
        return
    why = {"last_error": end.error} if end.error else {}
    Delivery.objects.using(alias).filter(pk__in=[row.pk for row in rows]).update(
        state=move(PENDING, end.state),
        finished_at=now,
        due_at=None,
        lease_token=None,
        lease_until=None,
        **why,
    )
    ended = [_ended(row, end) for row in rows]
    with reading(alias) as tx:
        count_dead(tx, ended)
        woken = promote(tx, {(row.endpoint_id, row.lane) for row in rows if row.lane is not None}, now)
    if woken:
        doorbell.ring_on_commit(alias, endpoint_ids=woken)
    transaction.on_commit(lambda: announce.ended(ended, now), using=alias, robust=True)


def unleased(now: datetime) -> Q:
    """Return the condition that nobody is sending the delivery at `now`."""
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def is_leased(row: Delivery, now: datetime) -> bool:
    """Whether somebody is sending the delivery at `now`."""
    return row.lease_until is not None and row.lease_until >= now


def in_flight() -> Conflict:
    """Return the error for a delivery that somebody is sending."""
    return Conflict(
        "a request of this delivery is running",
        code="delivery_in_flight",
        fix="Repeat the request in a minute.",
    )


def _ended(row: Delivery, end: End) -> Ended:
    return Ended(
        row.pk,
        row.endpoint_id,
        row.event_id,
        str(end.state),
        end.error or row.last_error,
        row.attempts,
        row.occurred_at.timestamp(),
        row.created_at.timestamp(),
    )
