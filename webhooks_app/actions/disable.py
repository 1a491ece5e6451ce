"""Disable an endpoint: from the next lease on nothing is sent, and what comes due is dead-lettered."""

from .. import conf
from ..exceptions import InvalidRequest
from ..models import Endpoint, EndpointState
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import change, change_state
from .locking import locked


def disable(actor: Actor, endpoint: Endpoint, *, reason: str = "manual") -> Endpoint:
    """Stop sending. An endpoint that is disabled already keeps its reason.

    Raises:
        InvalidRequest: for an unknown reason.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    if reason not in EndpointState.DisabledReason.values:
        raise InvalidRequest([("reason", f"must be one of {', '.join(EndpointState.DisabledReason.values)}")])
    with locked(actor, endpoint) as (fresh, state):
        if not state.enabled:
            return fresh
        alias = conf.current().DATABASE
        now = clock.db_now(alias)
        closed = {"enabled": False, "disabled_reason": reason, "disabled_at": now}
        change_state(alias, state, closed, new_life=True)
        change(alias, fresh, now)
        audit.record(actor, "webhook.disabled", fresh, details={"reason": reason}, now=now)
        doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    return fresh
