"""Change an endpoint; only the given fields are touched, whatever else changes meanwhile."""

from collections.abc import Mapping
from typing import Any

from .. import conf
from ..core.ssrf import Target
from ..core.states import PENDING
from ..destinations.network import check_endpoint_url
from ..exceptions import Conflict
from ..models import Delivery, Endpoint, EndpointState
from ..pipeline import clock, doorbell
from . import audit, endpoint_fields, endpoint_headers
from .actor import WEBHOOKS_MANAGE, Actor, require
from .disable import disable
from .enable import enable
from .ending import unleased
from .endpoint_changes import FRESH_HEALTH, change, change_state
from .faults import Faults
from .locking import locked

COLUMNS = frozenset({*endpoint_fields.PLAIN, "policy", "policy_overrides", "headers"})
SWITCHES = frozenset({"enabled", "retarget_pending"})
FIELDS = COLUMNS | SWITCHES | {"url"}

_ELSEWHERE = {
    "secret": "is changed by rotating it",
    "tenant_id": "cannot be changed; register another webhook",
    "partner_id": "cannot be changed; register another webhook",
    "environment": "cannot be changed; register another webhook",
}


def update_endpoint(actor: Actor, endpoint: Endpoint, changes: Mapping[str, Any]) -> Endpoint:
    """Change the fields named in `changes`, by the names `register_endpoint` has, and `enabled`.

    `headers` replaces the whole list; an entry marked secret without a value keeps the value it has. A new
    `url` gets the open deliveries only when `retarget_pending` says so.

    Raises:
        InvalidRequest: naming every field that is refused; also when there is none.
        Conflict: `deliveries_pending`, for a new URL while deliveries are open.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    faults = Faults()
    _check_names(changes, faults)
    # The look-up of the host may take seconds, so it comes before the locks.
    target = faults.check(check_endpoint_url, changes["url"]) if "url" in changes else None
    with locked(actor, endpoint) as (fresh, state):
        columns = endpoint_fields.columns(changes, fresh, faults)
        faults.finish()
        alias = conf.current().DATABASE
        now = clock.db_now(alias)
        columns = {name: value for name, value in columns.items() if value != getattr(fresh, name)}
        details = _details(columns)
        if target is not None and changes["url"] != fresh.url:
            details["host"] = _retarget(
                alias, fresh, state, target, keep=bool(changes.get("retarget_pending"))
            )
            columns["url"] = changes["url"]
        if columns:
            change(alias, fresh, now, columns)
            audit.record(actor, "webhook.updated", fresh, details=details, now=now)
        if "enabled" in changes:
            fresh = enable(actor, fresh) if changes["enabled"] else disable(actor, fresh)
    return fresh


def _check_names(changes: Mapping[str, Any], faults: Faults) -> None:
    for name in changes.keys() - FIELDS:
        faults.add(str(name), _ELSEWHERE.get(name, "is no field of a webhook"))
    for name in changes.keys() & SWITCHES:
        if not isinstance(changes[name], bool):
            faults.add(name, "must be true or false")
    if not changes.keys() - {"retarget_pending"}:
        faults.add("", "must name at least one field to change")


def _retarget(
    alias: str, endpoint: Endpoint, state: EndpointState, target: Target, *, keep: bool
) -> dict[str, Any]:
    """Prepare the state row for another receiver; return what the audit says of it."""
    waiting = Delivery.objects.using(alias).filter(endpoint=endpoint, state=PENDING).exists()
    if waiting and not keep:
        raise Conflict(
            "deliveries to the present URL are still open",
            code="deliveries_pending",
            fix="Wait for them to end, or send retarget_pending: true to let the new URL have them.",
        )
    change_state(alias, state, FRESH_HEALTH, new_life=True)
    # What the old URL refused says nothing of the new one.
    now = clock.db_now(alias)
    open_ones = Delivery.objects.using(alias).filter(unleased(now), endpoint=endpoint, state=PENDING)
    open_ones.filter(due_at__gt=now).update(due_at=now)
    doorbell.ring_on_commit(alias, endpoint_ids=[endpoint.pk])
    return {"old": _host(endpoint.url), "new": target.host, "retargeted": waiting}


def _details(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Say which fields change, with their new values where these are no secret and no free text."""
    shown = {name: columns[name] for name in columns.keys() - {"headers", "description", "identity_ids"}}
    if "headers" in columns:
        shown["headers"] = endpoint_headers.names(columns["headers"])
    return {"fields": sorted(columns), **shown}


def _host(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition("?")[0].lower()
