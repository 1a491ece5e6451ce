"""Match: which endpoints an event would go to, without recording one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q

from ..core.matching import EVERYTHING, EventFacts, Subscription, wants
from ..models import Endpoint
from .actor import WEBHOOKS_READ, Actor, require
from .eligible import subscription_of
from .scope import visible_endpoints

MAX_MATCHES = 1_000


@dataclass(frozen=True, slots=True)
class Match:
    """One endpoint. ``reason`` says why it would not get the event; None = it would."""

    endpoint: Endpoint
    reason: str | None


def match_event(actor: Actor, event: EventFacts) -> list[Match]:
    """Tell, for the actor's endpoints of the event's tenant, its partner and the platform, who would get it.

    Reasons: `environment`, `scope` (the type is not for it), `event_type`, `identity`, `disabled`. A paused
    endpoint gets its events later. At most 1,000 endpoints, the oldest first.

    Raises PermissionDenied without `webhooks:read`.
    """
    require(actor, WEBHOOKS_READ)
    owner = Q(tenant_id__isnull=True, partner_id__isnull=True)
    if event.tenant_id is not None:
        owner |= Q(tenant_id=event.tenant_id)
    if event.partner_id is not None:
        owner |= Q(partner_id=event.partner_id)
    rows = visible_endpoints(actor).filter(owner).select_related("state").order_by("pk")
    return [Match(each, _reason(each, event)) for each in rows[:MAX_MATCHES]]


def _reason(endpoint: Endpoint, event: EventFacts) -> str | None:
    sub = subscription_of(endpoint)
    refused = next((name for name, wider in _widened(sub, event) if not wants(wider, event)), None)
    if refused is None and not endpoint.state.enabled:
        return "disabled"
    return refused


def _widened(sub: Subscription, event: EventFacts) -> Iterator[tuple[str, Subscription]]:
    """Yield the subscription with one more of its conditions in force each time, and that one's name."""
    everything = replace(sub, environment=event.environment, events=(EVERYTHING,), identity_ids=None)
    yield "scope", everything
    yield "environment", replace(everything, environment=sub.environment)
    yield "event_type", replace(everything, environment=sub.environment, events=sub.events)
    yield "identity", sub
