"""Who gets what, as a customer sets it through the API and a receiver sees it (B143, B148, SW-20)."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.actions.builders import OPERATOR
from tests.conformance.consumer import Consumer
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.models import Partner, Tenant

Emit = Callable[..., str]
ALL = ["webhooks:manage", "events:write"]


class Customer:
    """Calls the API with a key, and lets the path run after each commit."""

    def __init__(self, scope: str, scope_id: str | None, run: Any) -> None:
        key = create_api_key(OPERATOR, scope=scope, scope_id=scope_id, permissions=ALL).key
        self._client, self._run = Client(HTTP_AUTHORIZATION=f"Bearer {key}"), run

    def call(self, method: str, path: str, body: Any) -> Any:
        with self._run(execute=True):
            url, call = f"/webhooks/v1{path}", getattr(self._client, method)
            return call(url, body, content_type="application/json")

    def register(self, url: str, **fields: Any) -> str:
        answer = self.call("post", "/webhooks", {"url": url, **fields})
        assert answer.status_code == 201, answer.content
        return str(answer.json()["id"])

    def change(self, webhook: str, **fields: Any) -> None:
        assert self.call("patch", f"/webhooks/{webhook}", fields).status_code == 200


@pytest.fixture
def customer(db: None, django_capture_on_commit_callbacks: Any) -> Callable[..., Customer]:
    """Return a maker of customers; acme and birch are tenants of the partner umbrella, cedar is of none."""
    umbrella = Partner.objects.create(id="umbrella")
    for name in ("acme", "birch"):
        Tenant.objects.create(id=name, partner=umbrella)
    return lambda scope="tenant", scope_id="acme": Customer(
        scope, scope_id, django_capture_on_commit_callbacks
    )


def got(consumer: Consumer) -> list[str]:
    """Return the types of the events that came since the last look."""
    types = [request.headers["webhook-event-type"] for request in consumer.requests]
    consumer.server.requests.clear()
    return types


def test_an_empty_list_sends_nothing_until_it_is_filled(
    customer: Callable[..., Customer], consumer: Consumer, emit: Emit
):
    acme = customer()
    webhook = acme.register(consumer.url, events=[])
    emit()
    assert got(consumer) == []
    acme.change(webhook, events=["order.*"])
    emit(type="order.paid")
    emit(type="orders.paid")
    emit(type="order")
    assert got(consumer) == ["order.paid"]
    acme.change(webhook, events=["*"])
    emit(type="anything.else")
    assert got(consumer) == ["anything.else"]
    acme.change(webhook, events=[])
    emit()
    assert got(consumer) == []


@pytest.mark.parametrize("events", [None, "*", [None], ["*", "order.paid"], ["Örder"], ["a" * 129], [""]])
def test_a_list_that_means_nothing_is_refused(
    customer: Callable[..., Customer], consumer: Consumer, events: Any
):
    answer = customer().call("post", "/webhooks", {"url": consumer.url, "events": events})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"].startswith("events")


@pytest.mark.parametrize(
    ("identities", "expected"),
    [
        (None, ["of.a", "of.b", "of.none"]),
        ([], []),
        (["a"], ["of.a"]),
        (["a", "b", "None"], ["of.a", "of.b"]),
    ],
)
def test_identity_filters(
    customer: Callable[..., Customer], consumer: Consumer, emit: Emit, identities: Any, expected: list[str]
):
    customer().register(consumer.url, events=["*"], identity_ids=identities)
    emit(type="of.a", identity="a")
    emit(type="of.b", identity="b")
    emit(type="of.none", identity=None)
    assert got(consumer) == expected


@pytest.mark.parametrize(
    ("scope", "scope_id", "expected"),
    [
        ("tenant", "acme", ["of.acme"]),
        ("partner", "umbrella", ["of.acme", "of.birch"]),
        ("partner", "other", []),
        ("platform", None, ["of.acme", "of.birch", "of.cedar", "of.nobody"]),
    ],
)
def test_a_scope_gets_its_own_and_nothing_else(
    customer: Callable[..., Customer],
    consumer: Consumer,
    emit: Emit,
    scope: str,
    scope_id: str | None,
    expected: list[str],
):
    customer(scope, scope_id).register(consumer.url, events=["*"])
    for tenant in ("acme", "birch", "cedar", None):
        emit(type=f"of.{tenant or 'nobody'}", tenant=tenant)
    emit(type="of.testing", environment="test")
    assert got(consumer) == expected


def test_an_event_posted_by_a_customer_comes_back_signed_and_named(
    customer: Callable[..., Customer], consumer: Consumer
):
    """From one end to the other: POST /v1/events is recorded once and delivered once."""
    acme = customer()
    acme.register(consumer.url, events=["*"])
    body = {"type": "order.paid", "data": {"n": 1}, "event_id": "order-7-paid"}
    first, second = (acme.call("post", "/events", body) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert [request.headers["webhook-id"] for request in consumer.requests] == [first.json()["id"]]
