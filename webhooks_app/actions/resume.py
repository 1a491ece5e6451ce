"""Resume an endpoint that is paused, or held by its breaker: what is due leaves at once."""

from .. import conf
from ..core.health import FIRST_WINDOW
from ..models import Endpoint, EndpointState
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import CLOSED_BREAKER, change, change_state, renew
from .locking import locked


def resume(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Let the held deliveries go: end a pause, and close a breaker that is not closed.

    As when a breaker closes by itself, the receiver is met with few requests. Its failures in a row are not
    forgiven: a receiver that still fails opens the breaker again with one more, and repeating the request
    does not keep it from ever being disabled. Neither paused nor held by a breaker: nothing changes.

    Raises:
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    with locked(actor, endpoint) as (fresh, state):
        paused, broken = state.paused_at is not None, state.breaker != EndpointState.Breaker.CLOSED
        if paused or broken:
            alias = conf.current().DATABASE
            now = clock.db_now(alias)
            if paused:
                change_state(alias, state, {"paused_at": None})
                audit.record(actor, "webhook.resumed", fresh, now=now)
            if broken:
                columns = {**CLOSED_BREAKER, "window": FIRST_WINDOW}
                renew(actor, fresh, state, columns, cause="resumed", now=now)
            change(alias, fresh, now)
            doorbell.ring_on_commit(alias, endpoint_ids=[fresh.pk])
    return fresh
