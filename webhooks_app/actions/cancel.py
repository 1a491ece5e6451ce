"""Cancel: open deliveries end unsent; they can be replayed like any other that ended."""

import time
from dataclasses import dataclass

from .. import conf
from ..core.states import CANCELLED, PENDING
from ..exceptions import Conflict
from ..models import Delivery, Endpoint
from ..pipeline import clock
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .ending import BATCH, End, end_open, end_rows, in_flight, is_leased
from .locking import locked
from .scope import get_delivery

END = End(CANCELLED)
# A caller waits for this; it cancels some ten thousands.
PATIENCE = 5.0


def cancel(actor: Actor, delivery: Delivery) -> Delivery:
    """End one open delivery as `cancelled`.

    Raises:
        Conflict: `delivery_in_flight` while a request of it runs, `delivery_ended` when it is not open.
        NotFound: `delivery_not_found`.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    endpoint = get_delivery(actor, delivery.public_id).endpoint
    with locked(actor, endpoint) as (fresh, _):
        row = get_delivery(actor, delivery.public_id)
        now = clock.db_now(alias)
        if row.state != PENDING:
            raise Conflict(
                f"the delivery has ended as {row.state}",
                code="delivery_ended",
                fix="Only open deliveries can be cancelled.",
            )
        if is_leased(row, now):
            raise in_flight()
        end_rows(alias, [row], END, now)
        audit.record(actor, "delivery.cancelled", fresh, details={"delivery": row.public_id}, now=now)
    return get_delivery(actor, delivery.public_id)


@dataclass(frozen=True, slots=True)
class Cancelled:
    """How many deliveries were cancelled, and whether none is left but those that are being sent."""

    count: int
    finished: bool


def cancel_open(actor: Actor, endpoint: Endpoint, *, max_seconds: float = PATIENCE) -> Cancelled:
    """End the endpoint's open deliveries as `cancelled`, in batches; those that are being sent excepted.

    Repeat it when it is not finished: it goes on where it stopped.

    Raises:
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    with locked(actor, endpoint) as (fresh, _):
        audit.record(actor, "webhook.deliveries_cancelled", fresh)
    until, count = time.monotonic() + max_seconds, 0
    while True:
        ended = end_open(alias, endpoint.pk, END)
        count += ended
        if ended < BATCH or time.monotonic() > until:
            return Cancelled(count, finished=ended < BATCH)
