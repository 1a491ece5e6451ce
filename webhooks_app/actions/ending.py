"""Ending open deliveries from outside of the path: in batches, and never one that is being sent."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from ..core.states import PENDING, State, move
from ..models import Delivery
from ..pipeline import announce, clock
from ..pipeline.work import Ended
from .locking import lock_state

BATCH = 500


@dataclass(frozen=True, slots=True)
class End:
    """How deliveries end: their state, and the error code that says why."""

    state: State
    error: str


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
        rows = Delivery.objects.using(alias).filter(
            chosen, unleased(now), endpoint_id=endpoint_id, state=PENDING
        )
        batch = list(rows.order_by("id")[:BATCH])
        Delivery.objects.using(alias).filter(pk__in=[row.pk for row in batch]).update(
            state=move(PENDING, end.state),
            last_error=end.error,
            finished_at=now,
            due_at=None,
            lease_token=None,
            lease_until=None,
        )
        ended = [_ended(row, end) for row in batch]
        transaction.on_commit(lambda: announce.ended(ended, now), using=alias, robust=True)
    return len(batch)


def unleased(now: datetime) -> Q:
    """Return the condition that nobody is sending the delivery at `now`."""
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def _ended(row: Delivery, end: End) -> Ended:
    return Ended(
        row.pk,
        row.endpoint_id,
        row.event_id,
        str(end.state),
        end.error,
        row.attempts,
        row.occurred_at.timestamp(),
        row.created_at.timestamp(),
    )
