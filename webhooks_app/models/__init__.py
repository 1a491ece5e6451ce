"""Tables of the webhook sender; constraints and indexes live here, behaviour does not."""

from .api_key import ApiKey
from .attempt import Attempt
from .audit import AuditEntry
from .delivery import Delivery
from .endpoint import Endpoint
from .endpoint_state import EndpointState
from .event import Event
from .idempotency import IdempotencyRecord
from .job import Job
from .lock import PipelineLock
from .outbox import OutboxEntry, OwnerSequence
from .rate import RateBucket
from .secret import EndpointSecret
from .tenancy import Partner, Tenant

__all__ = [
    "ApiKey",
    "Attempt",
    "AuditEntry",
    "Delivery",
    "Endpoint",
    "EndpointSecret",
    "EndpointState",
    "Event",
    "IdempotencyRecord",
    "Job",
    "OutboxEntry",
    "OwnerSequence",
    "Partner",
    "PipelineLock",
    "RateBucket",
    "Tenant",
]
