"""Which events an endpoint may be given today: of its scope and filters, alive, within the retention."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q, QuerySet

from ..core.matching import NEVER_FANNED_OUT, EventFacts, Subscription, wants
from ..models import Endpoint, Event
from ..pipeline.retention import Retention, retention

# What judging an event and queueing it takes; a body is never among it.
COLUMNS = (
    "type",
    "tenant_id",
    "partner_id",
    "identity_id",
    "owner_kind",
    "owner_id",
    "environment",
    "occurred_at",
    "expires_at",
    "about_endpoint_id",
)


class Eligible:
    """The events that one endpoint may be given at `now`.

    `kept` is the retention, where it was read already.
    """

    def __init__(
        self, alias: str, endpoint: Endpoint, now: datetime, *, kept: Retention | None = None
    ) -> None:
        self._alias = alias
        self._endpoint = endpoint
        self._now = now
        self._subscription = subscription_of(endpoint)
        self._kept = kept or retention(alias)

    @property
    def since(self) -> datetime:
        """The moment before which no event can be eligible."""
        return self._kept.cutoff(self._now, self._endpoint.tenant_id)

    def rows(self) -> QuerySet[Event]:
        """Return the events that may be eligible; narrowed down in SQL, for `takes` to decide."""
        return self.wanted().filter(Q(expires_at__isnull=True) | Q(expires_at__gt=self._now))

    def wanted(self) -> QuerySet[Event]:
        """Return the events of the endpoint's scope and filters whatever their age, for `wants` to decide."""
        endpoint = self._endpoint
        rows = self.owned().filter(environment=endpoint.environment)
        if endpoint.identity_ids is not None:
            rows = rows.filter(identity_id__in=endpoint.identity_ids)
        return rows.filter(_types(endpoint.events)).exclude(type__in=NEVER_FANNED_OUT)

    def owned(self) -> QuerySet[Event]:
        """Return the events of the endpoint's scope: of its tenant, of its partner's tenants, or all."""
        endpoint = self._endpoint
        owner = {
            "tenant": {"tenant_id": endpoint.tenant_id},
            "partner": {"partner_id": endpoint.partner_id},
            "platform": {},
        }[endpoint.scope]
        return Event.objects.using(self._alias).filter(**owner)

    def wants(self, event: Event) -> bool:
        """Whether the event is of the endpoint's scope and filters, whatever its age."""
        return wants(self._subscription, _facts(event))

    def is_alive(self, event: Event) -> bool:
        """Whether the event is neither expired nor past its retention."""
        has_expired = event.expires_at is not None and event.expires_at <= self._now
        return not has_expired and self.keeps(event)

    def keeps(self, event: Event) -> bool:
        """Whether the event is within its retention, at this endpoint."""
        return event.occurred_at > self._kept.cutoff(self._now, event.tenant_id, self._endpoint.tenant_id)

    def takes(self, event: Event) -> bool:
        """Whether the endpoint may be given this event."""
        return self.is_alive(event) and self.wants(event)


def _types(patterns: Sequence[str]) -> Q:
    wanted = Q(type__in=patterns)
    for pattern in patterns:
        if pattern == "*":
            return Q()
        if pattern.endswith("*"):
            wanted |= Q(type__startswith=pattern[:-1])
    return wanted


def subscription_of(endpoint: Endpoint) -> Subscription:
    """Return what the endpoint is for, as matching takes it."""
    identities = endpoint.identity_ids
    return Subscription(
        scope=endpoint.scope,  # type: ignore[arg-type]
        tenant_id=endpoint.tenant_id,
        partner_id=endpoint.partner_id,
        environment=endpoint.environment,
        events=tuple(endpoint.events),
        identity_ids=None if identities is None else tuple(identities),
        endpoint_id=str(endpoint.pk),
    )


def _facts(event: Event) -> EventFacts:
    return EventFacts(
        type=event.type,
        tenant_id=event.tenant_id,
        partner_id=event.partner_id,
        identity_id=event.identity_id,
        environment=event.environment,
        about=str(event.about_endpoint_id or ""),
        # An operational event names the tenant only when the tenant may hear of it.
        notify_tenant=event.tenant_id is not None,
    )
