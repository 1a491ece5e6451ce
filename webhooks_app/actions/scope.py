"""What an actor can see. All else does not exist for it: foreign and missing give the same NotFound."""

from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from .. import conf
from ..core.ids import EVENT_ID, parse_delivery_id, parse_id
from ..exceptions import NotFound
from ..models import ApiKey, Attempt, AuditEntry, Delivery, Endpoint, Event, Job
from .actor import Actor
from .tenancy import tenants_of


def webhook_not_found() -> NotFound:
    """Return the error for an endpoint that is missing, deleted or somebody else's."""
    return NotFound("there is no such webhook", code="webhook_not_found")


def visible_endpoints(actor: Actor) -> QuerySet[Endpoint]:
    """Return the actor's endpoints that are not deleted: its own and, for a partner, its tenants'."""
    rows = Endpoint.objects.using(_alias()).filter(_with_tenants(actor), deleted_at__isnull=True)
    return rows if actor.environment is None else rows.filter(environment=actor.environment)


def visible_events(actor: Actor) -> QuerySet[Event]:
    """Return the events of the actor's tenant, of its partner's tenants, or all."""
    rows = Event.objects.using(_alias()).filter(_owned(actor))
    return rows if actor.environment is None else rows.filter(environment=actor.environment)


def visible_deliveries(actor: Actor) -> QuerySet[Delivery]:
    """Return the deliveries of the endpoints the actor can see."""
    return Delivery.objects.using(_alias()).filter(endpoint__in=visible_endpoints(actor))


def visible_attempts(actor: Actor) -> QuerySet[Attempt]:
    """Return the attempts at the endpoints the actor can see, tests included."""
    return Attempt.objects.using(_alias()).filter(endpoint__in=visible_endpoints(actor))


def visible_audit(actor: Actor) -> QuerySet[AuditEntry]:
    """Return the audit of the actor's tenant, of its partner and the tenants of that, or all of it.

    What was done to webhooks of the other environment is hidden, as these are.
    """
    rows = AuditEntry.objects.using(_alias()).filter(_with_tenants(actor))
    if actor.environment is None:
        return rows
    webhooks = Endpoint.objects.using(_alias()).filter(public_id=OuterRef("target_id"))
    return rows.exclude(Exists(webhooks.exclude(environment=actor.environment)))


def visible_jobs(actor: Actor) -> QuerySet[Job]:
    """Return the jobs of the actor's tenant, of its partner and the tenants of that, or all of them.

    The platform also sees those of both environments, such as an erasure, whatever its own is.
    """
    rows = Job.objects.using(_alias()).filter(_with_tenants(actor))
    if actor.environment is None:
        return rows
    within = Q(environment=actor.environment)
    return rows.filter(within | Q(environment__isnull=True) if actor.scope == "platform" else within)


def visible_api_keys(actor: Actor) -> QuerySet[ApiKey]:
    """Return all keys for the operator and none for anybody else."""
    rows = ApiKey.objects.using(_alias())
    return rows.all() if actor.is_operator else rows.none()


def get_endpoint(actor: Actor, public_id: str) -> Endpoint:
    """Return the endpoint with its state. Raises NotFound (`webhook_not_found`)."""
    found = None
    if parse_id("whk", public_id) is not None:
        found = visible_endpoints(actor).select_related("state").filter(public_id=public_id).first()
    if found is None:
        raise webhook_not_found()
    return found


def get_event(actor: Actor, public_id: str) -> Event:
    """Return the event. Raises NotFound (`event_not_found`)."""
    # A NUL or half a surrogate pair as a parameter is an error of the database's, not an empty result.
    found = (
        visible_events(actor).filter(public_id=public_id).first() if EVENT_ID.fullmatch(public_id) else None
    )
    if found is None:
        raise NotFound("there is no such event", code="event_not_found")
    return found


def get_delivery(actor: Actor, public_id: str) -> Delivery:
    """Return the delivery with its endpoint and event. Raises NotFound (`delivery_not_found`)."""
    rows = visible_deliveries(actor).select_related("endpoint", "event")
    pk = parse_delivery_id(public_id)
    found = None if pk is None else rows.filter(pk=pk).first()
    if found is None or found.public_id != public_id:
        raise NotFound("there is no such delivery", code="delivery_not_found")
    return found


def get_attempt(actor: Actor, public_id: str) -> Attempt:
    """Return the attempt with its endpoint and delivery. Raises NotFound (`attempt_not_found`)."""
    value = parse_id("att", public_id)
    rows = visible_attempts(actor).select_related("endpoint", "delivery")
    found = None if value is None else rows.filter(pk=UUID(int=value)).first()
    if found is None:
        raise NotFound("there is no such attempt", code="attempt_not_found")
    return found


def get_job(actor: Actor, public_id: str) -> Job:
    """Return the job with its endpoint. Raises NotFound (`job_not_found`)."""
    found = None
    if parse_id("job", public_id) is not None:
        found = visible_jobs(actor).select_related("endpoint").filter(public_id=public_id).first()
    if found is None:
        raise NotFound("there is no such job", code="job_not_found")
    return found


def get_api_key(actor: Actor, public_id: str) -> ApiKey:
    """Return the key. Raises NotFound (`api_key_not_found`)."""
    found = None
    if parse_id("key", public_id) is not None:
        found = visible_api_keys(actor).filter(public_id=public_id).first()
    if found is None:
        raise NotFound("there is no such API key", code="api_key_not_found")
    return found


def _alias() -> str:
    return conf.current().DATABASE


def _owned(actor: Actor) -> Q:
    """Rows that name their tenant and its partner."""
    if actor.scope == "platform":
        return Q()
    return Q(**{f"{actor.scope}_id": actor.scope_id})


def _with_tenants(actor: Actor) -> Q:
    """Rows that name either their tenant or their partner, so a partner's tenants are looked up."""
    own = _owned(actor)
    if actor.scope == "partner" and actor.scope_id:
        return own | Q(tenant_id__in=tenants_of(_alias(), actor.scope_id))
    return own
