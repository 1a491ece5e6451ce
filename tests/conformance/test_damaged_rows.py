"""Rows that no action would write fail with a code of their own and hold up nobody else (B073, B065)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.actions.builders import make_endpoint
from tests.conformance.consumer import Consumer
from tests.conformance.driving import delivery
from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointSecret

Emit = Callable[..., str]
SEALED_ELSEWHERE = {"name": "X-Key", "secret": True, "sealed": "whs1.0.0.0"}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"headers": [{"name": "X-A", "value": "a\r\nX-Injected: 1"}]}, "invalid_url"),
        ({"headers": [{"name": "X Y", "value": "1"}]}, "invalid_url"),
        ({"headers": [{"name": "Host", "value": "evil.net"}]}, "invalid_url"),
        ({"headers": [{"name": "X-A", "value": 7}]}, "invalid_url"),
        ({"headers": [{"name": "X-A"}]}, "invalid_url"),
        ({"headers": [{"name": "X-A", "secret": True}]}, "invalid_url"),
        ({"headers": ["X-A: 1"]}, "invalid_url"),
        ({"headers": 7}, "invalid_url"),
        ({"headers": [SEALED_ELSEWHERE]}, "secret_unavailable"),
        ({"method": "GET /"}, "invalid_url"),
        ({"url": "nonsense"}, "invalid_url"),
        ({"url": "http://hooks.customer.com/"}, "invalid_url"),
        ({"url": "https://127.1/"}, "ssrf_blocked"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_sent_with(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, changes: dict[str, Any], error: str
):
    damaged = make_endpoint(url=consumer.url)
    Endpoint.objects.filter(pk=damaged.pk).update(**changes)
    emit()
    (attempt,) = Attempt.objects.filter(endpoint=damaged)
    assert (attempt.status, attempt.error, attempt.http_status) == ("failed", error, None)
    assert Delivery.objects.get(endpoint=endpoint).state == "delivered"
    assert [one.headers["webhook-endpoint-id"] for one in consumer.requests] == [endpoint.public_id]


@pytest.mark.parametrize(
    "changes",
    [{"policy": "of a later version"}, {"policy_overrides": {"waits": "x"}}, {"policy_overrides": []}],
)
def test_a_policy_that_is_none_falls_back(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, changes: dict[str, Any]
):
    Endpoint.objects.update(**changes)
    emit()
    assert delivery().state == "delivered"


@pytest.mark.parametrize("changes", [{"scheme": "v9"}, {"sealed": "whs1.not"}])
def test_a_key_that_is_none_signs_nothing(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, changes: dict[str, Any]
):
    EndpointSecret.objects.update(**changes)
    emit()
    assert (consumer.requests, delivery().last_error) == ([], "secret_unavailable")


def test_an_endpoint_without_any_key_signs_nothing(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    EndpointSecret.objects.all().delete()
    emit()
    assert (consumer.requests, delivery().last_error) == ([], "secret_unavailable")
