"""Whose an endpoint is: what an actor may ask for, and the endpoints that share an owner."""

from django.db.models import QuerySet

from .. import conf
from ..exceptions import NotFound
from ..models import Endpoint
from .actor import Actor
from .endpoint_fields import MAX_ID, text
from .faults import Fault
from .tenancy import partner_of

Owner = dict[str, str | None]


def owner_for(actor: Actor, tenant_id: str | None, partner_id: str | None) -> Owner:
    """Return the owning columns of a new endpoint; without a tenant and partner it is the actor's own.

    Raises NotFound (`tenant_not_found`, `partner_not_found`) for somebody else's, and Fault for both at once.
    """
    if tenant_id is not None and partner_id is not None:
        raise Fault("partner_id", "must not be given together with tenant_id")
    for path, value in (("tenant_id", tenant_id), ("partner_id", partner_id)):
        if value is not None:
            text(path, value, at_most=MAX_ID)
    if tenant_id is None and partner_id is None:
        return _own(actor)
    if tenant_id is not None and not _may_act_for_tenant(actor, tenant_id):
        raise NotFound("there is no such tenant", code="tenant_not_found")
    if partner_id is not None and not _may_act_for_partner(actor, partner_id):
        raise NotFound("there is no such partner", code="partner_not_found")
    return {"tenant_id": tenant_id, "partner_id": partner_id}


def same_owner(alias: str, endpoint: Endpoint) -> QuerySet[Endpoint]:
    """Return the living endpoints of the same tenant, of the same partner, or of the platform."""
    return Endpoint.objects.using(alias).filter(
        tenant_id=endpoint.tenant_id, partner_id=endpoint.partner_id, deleted_at__isnull=True
    )


def _own(actor: Actor) -> Owner:
    return {
        "tenant_id": actor.scope_id if actor.scope == "tenant" else None,
        "partner_id": actor.scope_id if actor.scope == "partner" else None,
    }


def _may_act_for_tenant(actor: Actor, tenant_id: str) -> bool:
    match actor.scope:
        case "platform":
            return True
        case "partner":
            return partner_of(conf.current().DATABASE, tenant_id) == actor.scope_id
        case _:
            return tenant_id == actor.scope_id


def _may_act_for_partner(actor: Actor, partner_id: str) -> bool:
    return actor.scope == "platform" or (actor.scope, actor.scope_id) == ("partner", partner_id)
