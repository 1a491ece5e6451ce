"""The bytes on the wire are those that docs/reference/wire.md promises, and nothing of ours beside them."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.consumer import HOST, Consumer
from tests.conformance.driving import SECRET, attempts, delivery, let_due
from tests.net.servers import reply
from tests.pipeline.conftest import Clock
from webhooks_app import __version__
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import Endpoint, OutboxEntry

Emit = Callable[..., str]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
MARKS = ["webhook-delivery-id", "webhook-timestamp", "webhook-signature", "webhook-attempt"]


def documented() -> tuple[list[str], str]:
    """Return the header names of the page's example in their order, and its body."""
    head, _, body = PAGE.read_text("utf-8").split("```")[1].strip().partition("\n\n")
    rows = head.splitlines()[1:]
    return [row.partition(":")[0] for row in rows], body.replace("\n ", "")


def test_the_head_is_the_documented_one(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    """SW-1, SW-2, SW-7, SW-9, SW-19, B116, CL-3, CL-9: every byte, in the page's order."""
    event_id = emit()
    (request,) = consumer.requests
    (attempt,) = attempts()
    expected = [
        ("Host", f"{HOST}:{consumer.server.port}"),
        ("Content-Type", "application/json"),
        ("User-Agent", f"django-webhooks-app/{__version__}"),
        ("webhook-id", event_id),
        ("webhook-timestamp", request.headers["webhook-timestamp"]),
        ("webhook-signature", attempt.signature),
        ("webhook-delivery-id", attempt.public_id),
        ("webhook-endpoint-id", endpoint.public_id),
        ("webhook-attempt", "1"),
        ("webhook-event-type", "order.paid"),
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(len(request.body))),
    ]
    assert request.line == "POST /in HTTP/1.1"
    assert request.rows == expected
    assert [name for name, _ in request.rows] == documented()[0]
    assert re.fullmatch("[0-9]{10}", request.headers["webhook-timestamp"])
    assert abs(int(request.headers["webhook-timestamp"]) - attempt.created_at.timestamp()) < 5
    assert re.fullmatch("v1,[A-Za-z0-9+/]{43}=", attempt.signature)


def test_the_body_is_the_documented_envelope(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    """SW-3: one line of compact UTF-8 JSON, with the members of the page in its order."""
    emit({"order_id": 7, "name": "Jürgen 😊\u2028"}, owner=("order", "7"), identity="device-1")
    (request,) = consumer.requests
    payload = json.loads(request.body)
    assert list(payload) == list(json.loads(documented()[1]))
    assert request.body == json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    assert b"\n" not in request.body
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", payload["occurred_at"])
    assert (payload["sequence"], payload["tenant_id"], payload["identity_id"]) == (1, "acme", "device-1")


def test_the_stored_bytes_travel(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    emit({"escape": "\u001b", "long": "x" * 50_000})
    (request,) = consumer.requests
    assert request.body == bytes(OutboxEntry.objects.get().body)
    assert bytes(attempts()[0].body_sha256) == hashlib.sha256(request.body).digest()


def test_a_retry_changes_only_the_marks_of_the_attempt(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """SW-3, SW-8: the same bytes and id, another attempt, time and signature."""
    consumer.answer(reply("500 Oops"))
    emit()
    let_due(clock)
    first, second = consumer.requests
    changed = [name for name, value in first.headers.items() if second.headers[name] != value]
    assert sorted(changed) == sorted(MARKS)
    assert (first.body, first.line) == (second.body, second.line)
    assert [one.headers["webhook-attempt"] for one in (first, second)] == ["1", "2"]
    stored = [attempt.public_id for attempt in attempts()]
    assert [one.headers["webhook-delivery-id"] for one in (first, second)] == stored
    assert delivery().state == "delivered"


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_own_method_path_and_headers(db: None, emit: Emit, consumer: Consumer, method: str):
    """The URL travels as it was given; custom headers come last, secret ones too (B086, WH-6)."""
    headers = [
        {"name": "Authorization", "value": "Bearer abc", "secret": True},
        {"name": "X-Plain", "value": "two  words"},
    ]
    make_endpoint(url=f"{consumer.url}/a%2Fb/c?x[]=1&y=%20&x[]=2", method=method, headers=headers)
    emit()
    (request,) = consumer.requests
    assert request.line == f"{method} /in/a%2Fb/c?x[]=1&y=%20&x[]=2 HTTP/1.1"
    assert request.rows[10:12] == [("Authorization", "Bearer abc"), ("X-Plain", "two  words")]


def test_nothing_comes_from_the_environment(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """B086, CL-1: neither .netrc nor proxies nor another CA bundle."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login thief password pw\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none.pem"))
    emit()
    update_endpoint(
        OPERATOR, endpoint, {"headers": [{"name": "Authorization", "value": "Bearer abc", "secret": True}]}
    )
    emit()
    without, own = consumer.requests
    assert "authorization" not in without.headers
    assert own.headers["authorization"] == "Bearer abc"


def test_a_cookie_is_never_sent_back(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    """CL-11, CL-13: over one kept connection."""
    consumer.always = reply("200 OK", b"ok", "Set-Cookie: session=1; Path=/")
    for _ in range(3):
        emit()
    assert not any("cookie" in request.headers for request in consumer.requests)
    assert (len(consumer.requests), consumer.server.connections) == (3, 1)


def test_a_change_is_used_by_the_very_next_request(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """B022: the endpoint is read again for every attempt."""
    consumer.answer(reply("500 Oops"))
    emit()
    changes = {"url": consumer.url + "/moved", "retarget_pending": True, "method": "PUT"}
    update_endpoint(OPERATOR, endpoint, changes)
    let_due(clock)
    assert [request.line for request in consumer.requests] == ["POST /in HTTP/1.1", "PUT /in/moved HTTP/1.1"]


def test_signatures_are_of_the_key_and_not_of_the_secrets_text(
    endpoint: Endpoint, emit: Emit, consumer: Consumer
):
    """B062, SW-10, SW-13: written out, without any library."""
    emit()
    (request,) = consumer.requests
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    stamp = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}."
    digest = hmac.new(key, stamp.encode() + request.body, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
