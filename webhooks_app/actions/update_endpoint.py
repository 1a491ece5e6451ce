"""Change an endpoint; only the given fields are touched, whatever else changes meanwhile."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from .. import conf
from ..core.ssrf import Target
from ..destinations.network import check_endpoint_url
from ..models import Endpoint, EndpointState
from ..pipeline import clock, doorbell
from . import audit, endpoint_fields, endpoint_headers
from .actor import WEBHOOKS_MANAGE, Actor, require
from .disable import disable
from .enable import enable
from .endpoint_changes import CLOSED_BREAKER, change, renew
from .faults import Faults
from .hasten import hasten
from .locking import Check, locked
from .retarget import retarget
from .sensitivity import require_for_events, withheld_waiting

POLICY = frozenset({"policy", "policy_overrides"})
COLUMNS = frozenset({*endpoint_fields.PLAIN, *POLICY, "headers"})
# What may let deliveries leave that wait now.
GATES = POLICY | {"max_in_flight", "rate_limit"}
SWITCHES = frozenset({"enabled", "retarget_pending"})
FIELDS = COLUMNS | SWITCHES | {"url"}

Moved: TypeAlias = tuple[str, Target]

_ELSEWHERE = {
    "secret": "is changed by rotating it",
    "tenant_id": "cannot be changed; register another webhook",
    "partner_id": "cannot be changed; register another webhook",
    "environment": "cannot be changed; register another webhook",
}


def update_endpoint(
    actor: Actor, endpoint: Endpoint, changes: Mapping[str, Any], *, check: Check | None = None
) -> Endpoint:
    """Change the fields named in `changes`, by the names `register_endpoint` has, and `enabled`.

    `headers` replaces the whole list; an entry marked secret without a value keeps the value it has. A new
    `url` gets the open deliveries only when `retarget_pending` says so; with the setting URL_CHANGE
    `disable` it also disables the endpoint until a test reaches it. Another `ordering` holds for events that
    are fanned out from now on. Another policy closes an open breaker.

    Args:
        check: called with the locked endpoint and state before anything changes; raises to prevent it.

    Raises:
        InvalidRequest: naming every field that is refused; also when there is none.
        Conflict: `deliveries_pending`, for a new URL while deliveries are open.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`; for new events, without what sensitive event types take
            besides; for a new URL, also without what the present events and the open deliveries take.
    """
    require(actor, WEBHOOKS_MANAGE)
    faults = Faults()
    _check_names(changes, faults)
    # The look-up of the host may take seconds, so it comes before the locks.
    target = faults.check(check_endpoint_url, changes["url"]) if "url" in changes else None
    # So does this; what has left the events since is judged by them, as they were.
    sent = {*endpoint.events, *withheld_waiting(actor, endpoint)} if target is not None else set()
    with locked(actor, endpoint, check) as (fresh, state):
        columns = endpoint_fields.columns(changes, fresh, faults)
        faults.finish()
        columns = {name: value for name, value in columns.items() if value != getattr(fresh, name)}
        moved, keep = _moved(fresh, changes, target), bool(changes.get("retarget_pending"))
        if "events" in columns or moved is not None:
            moving = {*sent, *fresh.events} if moved is not None else set()
            require_for_events(actor, {*moving, *columns.get("events", ())})
        _apply(actor, fresh, state, columns, target=moved, keep=keep)
        if "enabled" in changes:
            fresh = enable(actor, fresh) if changes["enabled"] else disable(actor, fresh)
        if moved is not None:
            # What the old URL refused says nothing of the new one.
            hasten(actor, fresh)
    return fresh


def _moved(endpoint: Endpoint, changes: Mapping[str, Any], target: Target | None) -> Moved | None:
    is_new = target is not None and changes["url"] != endpoint.url
    return (changes["url"], target) if is_new and target else None


def _apply(
    actor: Actor,
    endpoint: Endpoint,
    state: EndpointState,
    columns: dict[str, Any],
    *,
    target: Moved | None,
    keep: bool,
) -> None:
    alias = conf.current().DATABASE
    now = clock.db_now(alias)
    details = _details(columns)
    if columns.keys() & POLICY and state.breaker != EndpointState.Breaker.CLOSED:
        renew(actor, endpoint, state, CLOSED_BREAKER, cause="policy_changed", now=now)
    if columns.keys() & GATES:
        doorbell.ring_on_commit(alias, endpoint_ids=[endpoint.pk])
    if target is not None:
        columns["url"], where = target
        details["host"] = retarget(actor, endpoint, state, where, keep=keep, now=now)
    if columns:
        change(alias, endpoint, now, columns)
        audit.record(actor, "webhook.updated", endpoint, details=details, now=now)


def _check_names(changes: Mapping[str, Any], faults: Faults) -> None:
    for name in changes.keys() - FIELDS:
        faults.add(str(name), _ELSEWHERE.get(name, "is no field of a webhook"))
    for name in changes.keys() & SWITCHES:
        if not isinstance(changes[name], bool):
            faults.add(name, "must be true or false")
    if not changes.keys() - {"retarget_pending"}:
        faults.add("", "must name at least one field to change")


def _details(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Say which fields change, with their new values where these are no secret and no free text."""
    shown = {name: columns[name] for name in columns.keys() - {"headers", "description", "identity_ids"}}
    if "headers" in columns:
        shown["headers"] = endpoint_headers.names(columns["headers"])
    return {"fields": sorted(columns), **shown}
