"""A new URL of an endpoint: another receiver, of which nothing is known yet."""

from datetime import datetime
from typing import Any

from .. import conf
from ..core.ssrf import Target
from ..exceptions import Conflict
from ..models import Endpoint, EndpointState
from ..pipeline import doorbell
from . import audit
from .actor import Actor
from .enable import URL_CHANGED, switch_on
from .ending import open_rows
from .endpoint_changes import FRESH_HEALTH, renew
from .hasten import hasten
from .locking import locked

# The operator's choice in URL_CHANGE: nothing leaves for a new URL before a test has reached it.
DISABLES = "disable"


def retarget(
    actor: Actor, endpoint: Endpoint, state: EndpointState, target: Target, *, keep: bool, now: datetime
) -> dict[str, Any]:
    """Prepare a locked state row for another receiver; return what the audit says of it.

    Args:
        keep: whether the new URL shall have the open deliveries.

    Raises:
        Conflict: `deliveries_pending`, when there are some and it shall not.
    """
    alias = conf.current().DATABASE
    waiting = bool(open_rows(alias, endpoint.pk).values_list("pk")[:1])
    if waiting and not keep:
        raise Conflict(
            "deliveries to the present URL are still open",
            code="deliveries_pending",
            fix="Wait for them to end, or send retarget_pending: true to let the new URL have them.",
        )
    columns = {**FRESH_HEALTH, "latency_ms": None}
    if conf.current().URL_CHANGE == DISABLES:
        columns |= _disabled(actor, endpoint, state, now)
    renew(actor, endpoint, state, columns, cause="url_changed", now=now)
    doorbell.ring_on_commit(alias, endpoint_ids=[endpoint.pk])
    return {"old": _host(endpoint.url), "new": target.host, "retargeted": waiting}


def confirm(actor: Actor, endpoint: Endpoint, url: str, *, attempt: str) -> None:
    """Enable an endpoint that waits for its new URL to prove itself, when `url`, which has, is that URL.

    Raises NotFound when the endpoint was deleted meanwhile.
    """
    alias = conf.current().DATABASE
    waiting = EndpointState.objects.using(alias).filter(enabled=False, disabled_reason=URL_CHANGED)
    if not waiting.filter(pk=endpoint.pk).exists():
        return
    with locked(actor, endpoint) as (fresh, state):
        if state.disabled_reason == URL_CHANGED and fresh.url == url:
            switch_on(actor, fresh, state, attempt=attempt)
            hasten(actor, fresh)


def _disabled(actor: Actor, endpoint: Endpoint, state: EndpointState, now: datetime) -> dict[str, Any]:
    """Return the columns of the state; whatever disabled it before, only a test enables it now."""
    if state.enabled or state.disabled_reason != URL_CHANGED:
        audit.record(actor, "webhook.disabled", endpoint, details={"reason": URL_CHANGED.value}, now=now)
    return {"enabled": False, "disabled_reason": URL_CHANGED, "disabled_at": state.disabled_at or now}


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition("?")[0].lower()
