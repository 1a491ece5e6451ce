"""Register an endpoint: check what was asked for, seal its first secret, return that secret once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from .. import conf
from ..core.secrets import generate_from
from ..core.ssrf import Target
from ..destinations.network import check_endpoint_url, normal_form
from ..destinations.sealing import seal_secret
from ..exceptions import LimitReached
from ..ids import new_id
from ..models import Endpoint, EndpointSecret, EndpointState
from ..pipeline import clock
from . import audit, endpoint_fields
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_limits import with_defaults
from .faults import Fault, Faults
from .locking import lock_limit
from .ownership import owner_for, same_owner
from .recover import count_from_earliest, replay_from_earliest
from .sensitivity import require_for_events

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Registered:
    """A new endpoint, its secret, which can never be read again, and older endpoints with the same URL."""

    endpoint: Endpoint
    secret: str = field(repr=False)
    same_url: tuple[str, ...] = ()


def register_endpoint(
    actor: Actor,
    *,
    url: str,
    events: Sequence[str],
    tenant_id: str | None = None,
    partner_id: str | None = None,
    identity_ids: Sequence[str] | None = None,
    description: str | None = "",
    policy: str | None = None,
    policy_overrides: Mapping[str, Any] | None = None,
    secret: str | None = None,
    method: str = "POST",
    headers: Sequence[Mapping[str, Any]] = (),
    max_in_flight: int | None = None,
    ordering: str | None = None,
    rate_limit: Mapping[str, Any] | None = None,
    environment: str | None = None,
    earliest: bool = False,
) -> Registered:
    """Create an endpoint of a tenant, of a partner, or (neither given) of the actor's own scope.

    Args:
        events: `["*"]`, event types, or prefix patterns such as `order.*`; `[]` receives nothing.
        identity_ids: only events of these identities; None = all, `[]` = none.
        policy: how to retry; default: the setting DEFAULT_POLICY.
        policy_overrides: own values in place of the policy's.
        secret: an existing `whsec_…` to take over; made when left out.
        headers: `{"name", "value", "secret"?}`; values marked secret are sealed.
        max_in_flight: requests open at once; default: 1 with the ordering `fifo`, else the policy's.
        ordering: `none`, `fifo` or `subject`; default: the policy's.
        rate_limit: `{"per_second": n, "burst": n}`; None = no limit.
        environment: the actor's own, else `live`.
        earliest: begin a job that queues every retained event it may have; else it gets those from now on.

    Raises:
        InvalidRequest: naming every field that is refused; `from`, for more than a million retained events.
        NotFound: for somebody else's tenant or partner.
        LimitReached: MAX_ENDPOINTS are there already.
        PermissionDenied: without `webhooks:manage`, or what sensitive event types take besides.
    """
    require(actor, WEBHOOKS_MANAGE)
    given = {
        "events": events,
        "identity_ids": identity_ids,
        "description": description,
        "policy": policy or conf.current().DEFAULT_POLICY,
        "policy_overrides": policy_overrides,
        "method": method,
        "headers": headers,
        "max_in_flight": max_in_flight,
        "ordering": ordering,
        "rate_limit": rate_limit,
    }
    faults, endpoint = Faults(), Endpoint(public_id=new_id("whk"))
    owner = faults.check(owner_for, actor, tenant_id, partner_id)
    columns = endpoint_fields.columns(with_defaults(given), endpoint, faults)
    columns["environment"] = faults.check(_environment, actor, environment)
    own_secret = generate_from(os.urandom(SECRET_BYTES))
    chosen = own_secret if secret is None else faults.check(endpoint_fields.secret, secret)
    target = faults.check(check_endpoint_url, url)
    faults.finish()
    require_for_events(actor, columns["events"])
    for name, value in {**columns, **(owner or {}), "url": url}.items():
        setattr(endpoint, name, value)
    # Before the lock of the limit, behind which all that register for this owner queue up.
    total = count_from_earliest(endpoint) if earliest else None
    with transaction.atomic(using=conf.current().DATABASE):
        made = _create(actor, endpoint, chosen or own_secret, target)
        if total is not None:
            replay_from_earliest(actor, endpoint, total=total)
    return made


def _environment(actor: Actor, given: object) -> str:
    if given is None:
        return actor.environment or "live"
    name = endpoint_fields.environment(given)
    if actor.environment not in (None, name):
        raise Fault("environment", f"must be {actor.environment}, like the key's")
    return name


def _create(actor: Actor, endpoint: Endpoint, secret: str, target: Target | None) -> Registered:
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        _check_limit(alias, endpoint)
        same_url = _same_url(alias, endpoint, target)
        now = endpoint.created_at = endpoint.updated_at = clock.db_now(alias)
        endpoint.save(using=alias, force_insert=True)
        EndpointState.objects.using(alias).create(endpoint=endpoint)
        EndpointSecret.objects.using(alias).create(
            endpoint=endpoint, version=1, sealed=seal_secret(endpoint.public_id, 1, secret), created_at=now
        )
        audit.record(actor, "webhook.registered", endpoint, details=_details(endpoint, target), now=now)
    return Registered(endpoint, secret, same_url)


def _check_limit(alias: str, endpoint: Endpoint) -> None:
    lock_limit(alias, endpoint.scope, endpoint.tenant_id or endpoint.partner_id)
    most = conf.current().MAX_ENDPOINTS
    if same_owner(alias, endpoint).count() >= most:
        raise LimitReached(
            f"there are {most} webhooks already, which is the limit of a {endpoint.scope}",
            fix="Delete one that is no longer needed, or ask the operator to raise MAX_ENDPOINTS.",
        )


def _same_url(alias: str, endpoint: Endpoint, target: Target | None) -> tuple[str, ...]:
    """Find endpoints that would get each event a second time: allowed, but worth telling."""
    if target is None:
        return ()
    rows = same_owner(alias, endpoint).filter(environment=endpoint.environment, url__icontains=target.host)
    found = rows.order_by("id").values_list("public_id", "url")[:100]
    return tuple(public_id for public_id, url in found if normal_form(url) == target.url)


def _details(endpoint: Endpoint, target: Target | None) -> dict[str, Any]:
    return {
        "host": target.host if target else "",
        "events": endpoint.events,
        "environment": endpoint.environment,
        "policy": endpoint.policy,
    }
