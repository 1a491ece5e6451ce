"""Delete an endpoint: gone at once for everybody, its secrets destroyed, its open deliveries ended."""

import time

from .. import conf
from ..core.states import DEAD_LETTERED
from ..models import Endpoint, EndpointSecret
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .ending import BATCH, End, end_open
from .endpoint_changes import change, change_state
from .locking import Check, locked

DELETED = End(DEAD_LETTERED, "endpoint_deleted")
# A caller waits for this; what is left after it the path and prune end.
PATIENCE = 5.0


def delete_endpoint(actor: Actor, endpoint: Endpoint, *, check: Check | None = None) -> None:
    """Delete the endpoint. The evidence of its attempts stays until its retention is over.

    A request under way ends as it may; its delivery ends with it.

    Args:
        check: called with the locked endpoint and state before anything changes; raises to prevent it.

    Raises:
        NotFound: deleted already, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    with locked(actor, endpoint, check) as (fresh, state):
        now = clock.db_now(alias)
        EndpointSecret.objects.using(alias).filter(endpoint=fresh).delete()
        change_state(alias, state, {}, new_life=True)
        change(alias, fresh, now, {"deleted_at": now, "headers": []})
        audit.record(actor, "webhook.deleted", fresh, now=now)
        doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    _end_deliveries(alias, fresh.pk)


def _end_deliveries(alias: str, endpoint_id: int) -> None:
    until = time.monotonic() + PATIENCE
    while end_open(alias, endpoint_id, DELETED) == BATCH:
        if time.monotonic() > until:
            return
