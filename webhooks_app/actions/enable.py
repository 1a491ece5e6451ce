"""Enable an endpoint: it starts a new life, with no failures remembered."""

from .. import conf
from ..exceptions import InvalidRequest
from ..models import Endpoint, EndpointState
from ..pipeline import clock, doorbell
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import FRESH_HEALTH, change, renew
from .locking import locked

URL_CHANGED = EndpointState.DisabledReason.URL_CHANGED
OPENED = {"enabled": True, "disabled_reason": None, "disabled_at": None}


def enable(actor: Actor, endpoint: Endpoint) -> Endpoint:
    """Let deliveries leave again; those that came due meanwhile were dead-lettered and can be replayed.

    An endpoint that is enabled already stays as it is, its failures included: repeating the request must
    not keep a broken receiver from ever being disabled.

    Raises:
        InvalidRequest: naming `enabled`, while a changed URL has not proven itself; a test does that.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    with locked(actor, endpoint) as (fresh, state):
        if state.disabled_reason == URL_CHANGED and not state.enabled:
            raise InvalidRequest(
                [
                    (
                        "enabled",
                        "nobody has confirmed the new URL; send a test, whose success enables the webhook",
                    )
                ],
                fix="Send a test; when the new URL answers it with a 2xx, the webhook is enabled.",
            )
        if not state.enabled:
            switch_on(actor, fresh, state)
    return fresh


def switch_on(actor: Actor, endpoint: Endpoint, state: EndpointState, **why: str) -> None:
    """Enable a locked endpoint that is disabled; `why` goes into the audit beside the reason it was."""
    alias = conf.current().DATABASE
    now = clock.db_now(alias)
    details = {"disabled_reason": state.disabled_reason, **why}
    audit.record(actor, "webhook.enabled", endpoint, details=details, now=now)
    renew(actor, endpoint, state, {**OPENED, **FRESH_HEALTH}, cause="enabled", now=now)
    change(alias, endpoint, now)
    doorbell.ring_on_commit(alias, endpoint_ids=[endpoint.pk])
