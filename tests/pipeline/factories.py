"""Rows to start from: endpoints that are ready to receive, and events in the outbox."""

import factory
from django.db import transaction
from django.utils import timezone
from factory.django import DjangoModelFactory

from webhooks_app.destinations.sealing import seal_secret
from webhooks_app.events import EventRef, emit_many
from webhooks_app.ids import new_id
from webhooks_app.models import Endpoint, EndpointSecret, EndpointState, Partner, Tenant

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
OLD_SECRET = "whsec_b2xkIHNlY3JldCBvZiB0aGUgdGVzdHMsIDMyIGJ5dGU="


class PartnerFactory(DjangoModelFactory):
    class Meta:
        model = Partner

    id = factory.Sequence("partner-{}".format)


class TenantFactory(DjangoModelFactory):
    class Meta:
        model = Tenant

    id = factory.Sequence("tenant-row-{}".format)


class StateFactory(DjangoModelFactory):
    class Meta:
        model = EndpointState


class SecretFactory(DjangoModelFactory):
    """A sealed key of an endpoint; `text` is what is sealed."""

    class Meta:
        model = EndpointSecret

    class Params:
        text = SECRET

    version = 1
    created_at = factory.LazyFunction(timezone.now)
    sealed = factory.LazyAttribute(lambda o: seal_secret(o.endpoint.public_id, o.version, o.text))


class EndpointFactory(DjangoModelFactory):
    """An enabled endpoint of its own tenant, that wants everything; `state__window=50` sets its state."""

    class Meta:
        model = Endpoint
        skip_postgeneration_save = True

    public_id = factory.LazyFunction(lambda: new_id("whk"))
    tenant_id = factory.Sequence("tenant-{}".format)
    url = factory.Sequence("https://receiver-{}.example/hook".format)
    events = ["*"]
    created_at = factory.LazyFunction(timezone.now)
    updated_at = factory.LazyFunction(timezone.now)
    state = factory.RelatedFactory(StateFactory, factory_related_name="endpoint")
    secret = factory.RelatedFactory(SecretFactory, factory_related_name="endpoint")


def emit_for(
    tenant: str | Endpoint | None, count: int = 1, *, using: str | None = None, **values: object
) -> list[EventRef]:
    """Commit `count` events of a tenant (or of an endpoint's tenant)."""
    tenant_id = tenant.tenant_id if isinstance(tenant, Endpoint) else tenant
    items = [{"type": "order.paid", "data": {"n": n}, "tenant": tenant_id, **values} for n in range(count)]
    with transaction.atomic(using=using or "default"):
        return emit_many(items, using=using)
