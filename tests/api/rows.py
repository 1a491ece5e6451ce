"""Rows as the path would have left them."""

import uuid
from datetime import UTC, datetime
from itertools import count
from typing import Any

from django.apps import apps

from webhooks_app.actions.actor import Actor, operator
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.ids import new_id
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, Job

NOW = datetime(2026, 10, 1, 12, 0, 0, 123_000, tzinfo=UTC)
OPERATOR: Actor = operator("command", "tests")
_numbers = count(1)


def endpoint(tenant_id: str | None = "a", **fields: Any) -> Endpoint:
    """Return a registered endpoint."""
    values = {"url": "https://x.hooks.test/in", "events": ["*"], **fields}
    return register_endpoint(OPERATOR, tenant_id=tenant_id, **values).endpoint


def event(tenant_id: str | None = "a", **fields: Any) -> Event:
    """Return an event of the index that carries its own body."""
    values = {
        "public_id": f"evt_{next(_numbers)}",
        "type": "order.paid",
        "environment": "live",
        "occurred_at": NOW,
        "recorded_at": NOW,
        "body": b'{"data":{"n":1}}',
        **fields,
    }
    return Event.objects.create(tenant_id=tenant_id, **values)


def delivery(of: Endpoint, about: Event | None = None, **fields: Any) -> Delivery:
    """Return a delivery."""
    values = {"position": next(_numbers), "occurred_at": NOW, "created_at": NOW, **fields}
    return Delivery.objects.create(endpoint=of, event=about or event(of.tenant_id), **values)


def attempt(of: Endpoint, job: Delivery | None = None, **fields: Any) -> Attempt:
    """Return an attempt, of a test when there is no delivery."""
    values = {
        "id": uuid.UUID(int=(1 << 100) + next(_numbers)),
        "event_id": "evt_1",
        "event_type": "order.paid",
        "number": 1,
        "trigger": "schedule" if job else "test",
        "status": "succeeded",
        "http_status": 200,
        "duration_ms": 12,
        "url": "https://x.hooks.test/in",
        "created_at": NOW,
        **fields,
    }
    return Attempt.objects.create(endpoint=of, delivery=job, **values)


def attempt_at(of: Endpoint, moment: datetime) -> Attempt:
    """Return the attempt of a test that was made at a moment, as its id tells too."""
    millis = int(moment.timestamp() * 1000)
    return attempt(of, id=uuid.UUID(int=millis << 80 | next(_numbers)), created_at=moment)


def job(of: Endpoint, **fields: Any) -> Job:
    """Return a job about an endpoint."""
    values = {"kind": "recover", "total": 7, "actor_kind": "key", "actor_id": "key_1", "created_at": NOW}
    owner = {name: getattr(of, name) for name in ("tenant_id", "partner_id", "environment")}
    return Job.objects.create(public_id=new_id("job"), endpoint=of, **{**values, **owner, **fields})


def snapshot() -> dict[str, list[Any]]:
    """Return everything the app has stored, but when a key was last used."""
    models = [
        model for model in apps.get_app_config("webhooks_app").get_models() if model.__name__ != "ApiKey"
    ]
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models}
