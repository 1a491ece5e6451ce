"""Every operation of the API with a request that works, made from the examples of its document."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from tests.api import rows
from webhooks_app.api.schema import document
from webhooks_app.api.views import recovery, webhook_verbs
from webhooks_app.models import Endpoint

HOSTS = {"*.test": ["127.0.0.1"], "*.example.com": ["127.0.0.1"]}


@dataclass(frozen=True)
class Call:
    """One request; `path` has a place for an id, if any."""

    operation: str
    method: str
    path: str
    body: Any = None
    media_type: str = "application/json"

    @property
    def noun(self) -> str:
        return self.path.split("/")[1]


def calls() -> Iterator[Call]:
    """Yield every operation, one with several kinds of bodies once for each."""
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            route = path.removeprefix("/v1")
            bodies: Mapping[str, Any] = operation.get("requestBody", {}).get("content", {})
            for kind, media in bodies.items():
                yield Call(operation["operationId"], method.upper(), route, media["example"], kind)
            if not bodies:
                yield Call(operation["operationId"], method.upper(), route)


ALL = list(calls())


def ids_of(endpoint: Endpoint) -> dict[str, str]:
    """Return an id for every noun of the paths; of objects of the endpoint's tenant."""
    about = rows.event(endpoint.tenant_id, occurred_at=timezone.now())
    delivery = rows.delivery(endpoint, about, attempts=1)
    return {
        "webhooks": endpoint.public_id,
        "events": about.public_id,
        "deliveries": delivery.public_id,
        "attempts": rows.attempt(endpoint, delivery).public_id,
        "jobs": rows.job(endpoint).public_id,
    }


def call_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the operations that send a request at once send none."""
    monkeypatch.setattr(webhook_verbs, "test_send", lambda _, endpoint: rows.attempt(endpoint))
    monkeypatch.setattr(recovery, "resend", lambda _, delivery: rows.attempt(delivery.endpoint))
