"""What consumers get is verified by the official libraries, in Python and JavaScript, as they come."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
import svix.webhooks

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.consumer import Consumer, Request
from tests.conformance.driving import SECRET, attempts, delivery, let_due
from tests.net.servers import reply
from tests.node_verifier import NodeVerify
from tests.pipeline.conftest import Clock
from webhooks_app.actions.enable import enable
from webhooks_app.actions.replay import replay
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.actions.test_send import test_send as send_test
from webhooks_app.models import Endpoint

Emit = Callable[..., str]
PYTHON = {"standardwebhooks": standardwebhooks.Webhook, "svix": svix.webhooks.Webhook}
REFUSED = (standardwebhooks.WebhookVerificationError, svix.webhooks.WebhookVerificationError)

# B067, B051: what re-serialising receivers stumble over, and what JSON allows but people forget.
BODIES = [
    {"text": "😊 done", "lines": "a\u2028b\u2029c", "escape": "\u001b[0m", "quotes": '"\\/\t\n'},
    {"é": "ü", "empty": "", "nested": [{}, [], [[1, 2.5, -0.0, 1e22]], None, True]},
    {"big": 9007199254740993, "html": "</script><!-- & -->", "last": "\u007f\uffff\U0010ffff"},
]


def verdicts(secret: str, request: Request) -> dict[str, bool]:
    """Return what each Python library says of a request."""
    found = {}
    for name, library in PYTHON.items():
        try:
            library(secret).verify(request.body, request.headers)
            found[name] = True
        except REFUSED:
            found[name] = False
    return found


def verified(secret: str, request: Request) -> bool:
    """Whether the Python libraries accept a request; they must agree."""
    (answer,) = set(verdicts(secret, request).values())
    return answer


def signature_of(secret: str, request: Request) -> str:
    """Return the signature that the official library makes for a request, whatever the time is."""
    headers = request.headers
    moment = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    return standardwebhooks.Webhook(secret).sign(headers["webhook-id"], moment, request.body.decode())


def signatures(request: Request) -> list[str]:
    """Return the signatures of a request."""
    return request.headers["webhook-signature"].split(" ")


@pytest.mark.parametrize("data", BODIES)
def test_the_first_delivery(endpoint: Endpoint, emit: Emit, consumer: Consumer, data: Any):
    event_id = emit(data)
    (request,) = consumer.requests
    assert verified(SECRET, request)
    payload = standardwebhooks.Webhook(SECRET).verify(request.body, request.headers)
    assert (payload["id"], payload["data"]) == (event_id, data)


def test_another_body_or_secret_does_not_verify(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    emit()
    (request,) = consumer.requests
    assert not verified(SECRET, Request(request.head, request.body + b" "))
    assert not verified("whsec_" + "A" * 43 + "=", request)


def test_a_retry_is_signed_anew(endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock):
    """B046: two and a half hours after the first attempt only a fresh timestamp verifies."""
    consumer.answer(reply("500 Oops"), reply("500 Oops"), reply("500 Oops"))
    # The path lives in the past until its last attempt: the libraries know the real present only.
    clock.advance(hours=-2.5)
    emit()
    let_due(clock)
    let_due(clock)
    clock.ahead = timedelta()
    let_due(clock)
    first, *_, last = consumer.requests
    assert (delivery().state, len(consumer.requests)) == ("delivered", 4)
    assert verified(SECRET, last)
    assert not verified(SECRET, first)
    assert signatures(first) == [signature_of(SECRET, first)]
    assert 2.2 * 3600 < _seconds(last) - _seconds(first) < 2.6 * 3600
    assert first.headers["webhook-id"] == last.headers["webhook-id"]
    assert first.body == last.body


def _seconds(request: Request) -> int:
    return int(request.headers["webhook-timestamp"])


def test_each_secret_of_a_rotation_verifies_alone(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    """SW-16, SW-17: one header, one space, the new one first."""
    rotated = rotate_secret(OPERATOR, endpoint, overlap_hours=24)
    emit(BODIES[0])
    (request,) = consumer.requests
    assert verified(rotated.secret, request)
    assert verified(SECRET, request)
    assert signatures(request) == [signature_of(rotated.secret, request), signature_of(SECRET, request)]


def test_a_retry_is_signed_with_the_keys_of_its_own_moment(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """B035: the attempt before the rotation, one within the overlap, one after it."""
    consumer.always = reply("500 Oops")
    clock.advance(hours=-25)
    emit()
    rotated = rotate_secret(OPERATOR, endpoint, overlap_hours=24)
    let_due(clock)
    clock.ahead = timedelta()
    consumer.always = reply("200 OK")
    let_due(clock)
    before, within, after = consumer.requests
    assert signatures(before) == [signature_of(SECRET, before)]
    assert signatures(within) == [signature_of(rotated.secret, within), signature_of(SECRET, within)]
    assert signatures(after) == [signature_of(rotated.secret, after)]
    assert verified(rotated.secret, after)
    assert not verified(SECRET, after)


def test_without_an_overlap_the_old_secret_is_gone_at_once(
    endpoint: Endpoint, emit: Emit, consumer: Consumer
):
    rotated = rotate_secret(OPERATOR, endpoint, overlap_hours=0)
    emit()
    (request,) = consumer.requests
    assert signatures(request) == [signature_of(rotated.secret, request)]
    assert not verified(SECRET, request)


def test_a_replay_is_the_same_message_signed_now(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, django_capture_on_commit_callbacks: Any
):
    """SW-8: the same id and bytes, a day later."""
    clock.advance(days=-1)
    event_id = emit(BODIES[0])
    clock.ahead = timedelta()
    with django_capture_on_commit_callbacks(execute=True):
        assert replay(OPERATOR, endpoint, event_ids=[event_id]) == 1
    first, again = consumer.requests
    assert (first.body, first.headers["webhook-id"]) == (again.body, again.headers["webhook-id"])
    assert not verified(SECRET, first)
    assert verified(SECRET, again)


def test_a_test_delivery_verifies_too(endpoint: Endpoint, consumer: Consumer):
    send_test(OPERATOR, endpoint)
    (request,) = consumer.requests
    assert verified(SECRET, request)


def test_two_endpoints_do_not_share_a_secret(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    """SW-18, B037: one URL may be registered twice; each delivery names its endpoint and has its key."""
    other = make_endpoint(url=consumer.url)
    emit()
    by_endpoint = {request.headers["webhook-endpoint-id"]: request for request in consumer.requests}
    assert by_endpoint.keys() == {endpoint.public_id, other.public_id}
    assert verified(SECRET, by_endpoint[endpoint.public_id])
    assert not verified(SECRET, by_endpoint[other.public_id])


def test_the_libraries_of_javascript_agree(
    node_verify: NodeVerify, endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """First delivery, a retry of hours later, and both secrets of a rotation, by npm's libraries."""
    consumer.answer(reply("500 Oops"))
    clock.advance(hours=-2.5)
    emit(BODIES[0])
    clock.ahead = timedelta()
    let_due(clock)
    rotated = rotate_secret(OPERATOR, endpoint, overlap_hours=24)
    for data in BODIES:
        emit(data)
    stale, *fresh = consumer.requests
    said = [node_verify(SECRET, request.headers, request.body) for request in fresh]
    said += [node_verify(rotated.secret, request.headers, request.body) for request in fresh[1:]]
    assert said == [{"standardwebhooks": "ok", "svix": "ok"}] * 7
    for refused in (
        node_verify(SECRET, stale.headers, stale.body),
        node_verify(rotated.secret, fresh[0].headers, fresh[0].body),
    ):
        assert "ok" not in refused.values()


def test_a_secret_that_comes_back_signs_again(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, product: Any, settings: Any
):
    """Without its master key nothing is sent; when the key is back the same delivery goes out."""
    keys = settings.WEBHOOKS["MASTER_KEYS"]
    product(MASTER_KEYS=["b3RoZXIga2V5IG9mIHRoZSB0ZXN0czogMzIgYnl0ZXM="])
    emit()
    assert (consumer.requests, delivery().last_error) == ([], "secret_unavailable")
    product(MASTER_KEYS=keys)
    enable(OPERATOR, endpoint)
    let_due(clock)
    assert [attempt.status for attempt in attempts()] == ["failed", "succeeded"]
    assert signatures(consumer.requests[0]) == [signature_of(SECRET, consumer.requests[0])]
