"""Events that come in through the API: for whom the caller may speak, and the id that keeps tenants apart."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from .. import conf
from ..actions.actor import Actor
from ..actions.tenancy import partner_of
from ..core.ids import IdError, tenant_event_id
from ..events import EventRef, emit
from ..exceptions import Conflict, InvalidRequest, NotFound
from ..models import OutboxEntry


def ingest(actor: Actor, values: Mapping[str, Any]) -> EventRef:
    """Record one event for the caller's tenant, for one of its tenants, or (platform) for any or none.

    Raises:
        InvalidRequest, InvalidEvent: a value is refused.
        NotFound: `tenant_not_found`, somebody else's.
        Conflict: `event_id_conflict`, the id names an event of the other environment.
    """
    tenant_id = _tenant(actor, values.get("tenant_id"))
    environment = _environment(actor, values.get("environment"))
    owner = values.get("owner")
    alias = conf.current().DATABASE
    with transaction.atomic(using=alias):
        ref = emit(
            values["type"],
            values["data"],
            tenant=tenant_id,
            identity=values.get("identity_id"),
            owner=(owner["kind"], owner["id"]) if owner else None,
            subject=values.get("subject"),
            event_id=_event_id(tenant_id, values.get("event_id")),
            occurred_at=values.get("occurred_at"),
            expires_at=values.get("expires_at"),
            environment=environment,
            using=alias,
        )
        if not ref.created:
            _check_environment(alias, ref.id, environment)
    return ref


def _tenant(actor: Actor, given: str | None) -> str | None:
    if actor.scope == "platform":
        return given
    if actor.scope == "partner":
        if given is None:
            raise InvalidRequest([("tenant_id", "is required: name one of the partner's tenants")])
        own = partner_of(conf.current().DATABASE, given) == actor.scope_id
    else:
        own = given in (None, actor.scope_id)
    if not own or actor.scope_id is None:
        raise NotFound("there is no such tenant", code="tenant_not_found")
    return given or actor.scope_id


def _environment(actor: Actor, given: str | None) -> str:
    if given is not None and actor.environment not in (None, given):
        raise InvalidRequest([("environment", f"must be {actor.environment}, like the key's")])
    return given or actor.environment or "live"


def _event_id(tenant_id: str | None, given: str | None) -> str | None:
    try:
        return None if given is None else tenant_event_id(tenant_id, given)
    except IdError as error:
        raise InvalidRequest([("event_id", str(error))]) from None


def _check_environment(alias: str, event_id: str, environment: str) -> None:
    """Refuse to take a test's event for the live one of its id: the live one would be lost in silence."""
    if OutboxEntry.objects.using(alias).filter(event_id=event_id).exclude(environment=environment).exists():
        raise Conflict("the event_id names an event of the other environment", code="event_id_conflict")
