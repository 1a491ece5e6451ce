"""Rows for the tests of the admin, as the path and the actions leave them."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from webhooks_app.actions.actor import operator
from webhooks_app.actions.register_endpoint import Registered, register_endpoint
from webhooks_app.ids import new_id, new_token
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, OutboxEntry

NOW = datetime(2026, 10, 1, 12, 0, tzinfo=UTC)
OPERATOR = operator("command", "tests")
URL = "https://hooks.customer.com/T1/S3CRET?token=S3CRET"
_numbers = count(1)


def registered(**values: Any) -> Registered:
    """Register an endpoint whose URL holds a secret."""
    return register_endpoint(OPERATOR, **{"url": URL, "events": ["*"], "tenant_id": "acme", **values})


def endpoint(**values: Any) -> Endpoint:
    """Return a registered endpoint."""
    return registered(**values).endpoint


def event(**values: Any) -> Event:
    """Return an event of the index that carries its own body."""
    moment = NOW + timedelta(seconds=next(_numbers))
    common = {"type": "order.paid", "tenant_id": "acme", "environment": "live", "body": b'{"data":{"n":1}}'}
    values = {"public_id": new_id("evt"), "occurred_at": moment, "recorded_at": moment, **common, **values}
    return Event.objects.create(**values)


def delivery(of: Endpoint, about: Event | None = None, **values: Any) -> Delivery:
    """Return a delivery."""
    values = {"position": next(_numbers), "occurred_at": NOW, "created_at": NOW, **values}
    return Delivery.objects.create(endpoint=of, event=about or event(), **values)


def attempt(job: Delivery, **values: Any) -> Attempt:
    """Return a failed attempt of a delivery."""
    values = {
        "id": new_token(),
        "delivery": job,
        "endpoint": job.endpoint,
        "event_id": job.event.public_id,
        "event_type": job.event.type,
        "number": 1,
        "trigger": "schedule",
        "status": "failed",
        "error": "status_5xx",
        "http_status": 500,
        "duration_ms": 12,
        "url": URL.partition("?")[0],
        "created_at": NOW,
        **values,
    }
    return Attempt.objects.create(**values)


def entry(**values: Any) -> OutboxEntry:
    """Return an outbox entry that waits."""
    values = {"event_id": new_id("evt"), "type": "order.paid", "environment": "live", "body": b"{}", **values}
    return OutboxEntry.objects.create(**{"occurred_at": NOW, "recorded_at": NOW, **values})
