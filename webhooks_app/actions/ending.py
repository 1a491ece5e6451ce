"""Ending open deliveries from outside of the path: in batches, and never one that is being sent."""

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from ..core.states import PENDING, State, move
from ..models import Delivery
from ..pipeline import clock
from ..signals import delivery_ended
from .locking import lock_state

logger = logging.getLogger("webhooks_app.actions")

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
        batch = list(rows.order_by("id").values_list("pk", "event_id", "attempts")[:BATCH])
        Delivery.objects.using(alias).filter(pk__in=[row[0] for row in batch]).update(
            state=move(PENDING, end.state),
            last_error=end.error,
            finished_at=now,
            due_at=None,
            lease_token=None,
            lease_until=None,
        )
        transaction.on_commit(lambda: _announce(endpoint_id, batch, end), using=alias, robust=True)
    return len(batch)


def unleased(now: datetime) -> Q:
    """Return the condition that nobody is sending the delivery at `now`."""
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def _announce(endpoint_id: int, batch: list[tuple[int, int, int]], end: End) -> None:
    for pk, event_id, attempts in batch:
        logger.warning("delivery %d ended: %s (%s)", pk, end.state, end.error)
        delivery_ended.send_robust(
            sender=Delivery,
            endpoint_id=endpoint_id,
            event_id=event_id,
            state=str(end.state),
            error=end.error,
            attempts=attempts,
        )
