"""Endpoints and committed events, made quickly but like the product makes them."""

import os
from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from bench import sample
from webhooks_app.core.secrets import generate_from
from webhooks_app.destinations.sealing import seal_secret
from webhooks_app.events import emit_many
from webhooks_app.ids import new_id
from webhooks_app.models import Endpoint, EndpointSecret, EndpointState
from webhooks_app.pipeline import doorbell
from webhooks_app.pipeline.queue import PollQueue

CHUNK = 1_000


def add_endpoints(owners: Sequence[tuple[str, str]], **values: Any) -> list[int]:
    """Register an endpoint for each (tenant, URL), with these values of its fields; return their keys."""
    now = timezone.now()
    fields = {"events": ["*"], "created_at": now, "updated_at": now, **values}
    endpoints = [
        Endpoint(public_id=new_id("whk"), tenant_id=tenant, url=url, **fields) for tenant, url in owners
    ]
    Endpoint.objects.bulk_create(endpoints, batch_size=CHUNK)
    EndpointState.objects.bulk_create([EndpointState(endpoint=each) for each in endpoints], batch_size=CHUNK)
    EndpointSecret.objects.bulk_create([_secret(each) for each in endpoints], batch_size=CHUNK)
    return [endpoint.pk for endpoint in endpoints]


def _secret(endpoint: Endpoint) -> EndpointSecret:
    sealed = seal_secret(endpoint.public_id, 1, generate_from(os.urandom(32)))
    return EndpointSecret(endpoint=endpoint, version=1, sealed=sealed, created_at=endpoint.created_at)


def commit_events(tenants: Sequence[str], *, together: bool = False, owners: int = 0) -> None:
    """Emit an event for each tenant named, without a wake: whoever measures rings when the clock starts.

    `together` commits all in one transaction. The events belong to so many `owners` in turn; 0: to none.
    """
    size = len(tenants) if together else CHUNK
    doorbell.install(PollQueue())
    try:
        for start in range(0, len(tenants), size):
            with transaction.atomic():
                emit_many(
                    {
                        "type": sample.TYPE,
                        "data": sample.data(),
                        "tenant": tenant,
                        "owner": ("order", str(number % owners)) if owners else None,
                    }
                    for number, tenant in enumerate(tenants[start : start + size], start)
                )
    finally:
        doorbell.reset()


def analyze() -> None:
    """Give the planner the statistics that autovacuum would have gathered by now."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
