"""Enable an endpoint: it starts a new life, with no failures remembered."""

from .. import conf
from ..models import Endpoint
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import FRESH_HEALTH, change, change_state
from .locking import locked


def enable(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Let deliveries leave again; those that came due meanwhile were dead-lettered and can be replayed.

    An endpoint that is enabled already stays as it is, its failures included: repeating the request must
    not keep a broken receiver from ever being disabled.

    Raises:
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    with locked(actor, endpoint) as (fresh, state):
        if state.enabled:
            return fresh
        alias = conf.current().DATABASE
        now = clock.db_now(alias)
        opened = {"enabled": True, "disabled_reason": None, "disabled_at": None}
        reason = state.disabled_reason
        change_state(alias, state, {**opened, **FRESH_HEALTH}, new_life=True)
        change(alias, fresh, now)
        audit.record(actor, "webhook.enabled", fresh, details={"disabled_reason": reason}, now=now)
        doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    return fresh
