"""Resume a paused endpoint: what is due leaves at once."""

from .. import conf
from ..models import Endpoint
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import change, change_state
from .locking import locked


def resume(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Let the held deliveries go. Not paused: nothing changes.

    Raises:
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    with locked(actor, endpoint) as (fresh, state):
        if state.paused_at is not None:
            alias = conf.current().DATABASE
            now = clock.db_now(alias)
            change_state(alias, state, {"paused_at": None})
            change(alias, fresh, now)
            audit.record(actor, "webhook.resumed", fresh, now=now)
            doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    return fresh
