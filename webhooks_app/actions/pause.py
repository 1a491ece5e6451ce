"""Pause an endpoint: its deliveries wait, without an attempt being used or the schedule moving on."""

from .. import conf
from ..models import Endpoint
from ..pipeline import clock
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import change, change_state
from .locking import locked


def pause(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Hold the endpoint's deliveries; requests under way end as they may. Paused already: nothing changes.

    Raises:
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    with locked(actor, endpoint) as (fresh, state):
        if state.paused_at is None:
            alias = conf.current().DATABASE
            now = clock.db_now(alias)
            change_state(alias, state, {"paused_at": now})
            change(alias, fresh, now)
            audit.record(actor, "webhook.paused", fresh, now=now)
    return fresh
