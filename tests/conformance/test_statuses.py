"""What the status of an answer leads to, under the policy `standard`, over real connections."""

from collections.abc import Callable
from typing import Any

import pytest
import standardwebhooks

from tests.actions.builders import make_endpoint
from tests.conformance.consumer import HOST, Consumer
from tests.conformance.driving import SECRET, attempts, delivery, let_due
from tests.net.servers import OK, Server, answers, reply
from tests.pipeline.conftest import Clock
from webhooks_app.models import Delivery, Endpoint, EndpointState, Event
from webhooks_app.pipeline import inline

pytestmark = pytest.mark.once

Emit = Callable[..., str]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 205, 206, 226, 299])
def test_every_2xx_is_a_success(endpoint: Endpoint, emit: Emit, consumer: Consumer, status: int):
    """B111, SW-23."""
    consumer.always = reply(f"{status} Fine", b"")
    emit()
    (attempt,) = attempts()
    assert (attempt.status, attempt.error, attempt.http_status) == ("succeeded", "", status)
    assert (delivery().state, delivery().attempts) == ("delivered", 1)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *[(status, "invalid_response") for status in (101, 600, 999)],
        *[(status, "redirect") for status in (300, 301, 302, 303, 304, 307, 308, 399)],
        *[(status, "status_4xx") for status in (400, 401, 404, 408, 409, 415, 418, 422, 425, 429, 499)],
        *[(status, "status_5xx") for status in (500, 501, 502, 503, 504, 599)],
    ],
)
def test_everything_else_is_tried_again(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, status: int, error: str
):
    """B111, B112, SW-23, CL-6: also what another sender would call hopeless."""
    consumer.answer(reply(f"{status} Odd", b""))
    emit()
    (attempt,) = attempts()
    assert (attempt.status, attempt.error, attempt.http_status) == ("failed", error, status)
    assert (delivery().state, delivery().last_error, delivery().step) == ("pending", error, 1)
    assert EndpointState.objects.get().enabled
    let_due(clock)
    assert (delivery().state, delivery().last_error) == ("delivered", "")


def test_410_ends_everything_and_the_operator_hears_of_it(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """SW-22, SW-25, WH-3: the endpoint is disabled, what waits makes no request, and one event tells."""
    consumer.answer(reply("500 Oops"), reply("410 Gone"))
    watcher = make_endpoint(
        url=consumer.url, secret=SECRET, partner_id=None, tenant_id=None, events=["webhook.*"]
    )
    emit()
    emit()
    first, second = Delivery.objects.filter(endpoint=endpoint).order_by("id")
    assert (second.state, second.last_error) == ("failed_permanent", "status_410")
    state = EndpointState.objects.get(endpoint=endpoint)
    assert (state.enabled, state.disabled_reason) == (False, "gone")
    told = consumer.requests[-1]
    payload = standardwebhooks.Webhook(SECRET).verify(told.body, told.headers)
    assert told.headers["webhook-endpoint-id"] == watcher.public_id
    assert payload["data"] == {"webhook_id": endpoint.public_id, "reason": "gone"}
    assert (payload["type"], payload["sequence"]) == ("webhook.disabled", None)
    clock.advance(hours=1)
    inline.tick_once()
    first.refresh_from_db()
    assert (first.state, first.last_error, first.attempts) == ("dead_lettered", "endpoint_disabled", 1)
    assert len(consumer.requests) == 3
    assert Event.objects.filter(type="webhook.disabled").count() == 1


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("where", ["canary", "/other", "", "same"])
def test_redirects_are_not_followed(  # B084, SW-24, CL-2
    endpoint: Endpoint,
    emit: Emit,
    consumer: Consumer,
    product: Any,
    certificate: Any,
    status: str,
    where: str,
):
    canary = Server(answers(OK), context=certificate)
    try:
        product(EXTRA_PORTS=[consumer.server.port, canary.port])
        targets = {"canary": f"https://{HOST}:{canary.port}/in", "same": consumer.url}
        consumer.always = reply(status, b"", f"Location: {targets.get(where, where)}")
        emit()
        assert (len(consumer.requests), canary.connections) == (1, 0)
    finally:
        canary.close()
    (attempt,) = attempts()
    assert (attempt.error, attempt.status, delivery().state) == ("redirect", "failed", "pending")


@pytest.mark.parametrize(
    ("answer", "control", "state", "reason"),
    [
        ("500 Oops", "abort-message", "failed_permanent", None),
        ("500 Oops", "Disable", "pending", "consumer"),
        ("200 OK", "disable", "delivered", "consumer"),
        ("200 OK", "abort-message", "delivered", None),
        ("500 Oops", "nonsense", "pending", None),
    ],
)
def test_the_consumer_has_a_say(  # as docs/howto/receive.md tells consumers
    endpoint: Endpoint, emit: Emit, consumer: Consumer, answer: str, control: str, state: str, reason: Any
):
    consumer.always = reply(answer, b"", f"webhook-delivery: {control}")
    emit()
    assert delivery().state == state
    assert EndpointState.objects.get().disabled_reason == reason
