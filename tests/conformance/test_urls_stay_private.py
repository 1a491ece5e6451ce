"""URLs hold secrets of their owners; whatever goes wrong, only the owner's own view shows them (B146)."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from django.test import Client

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.consumer import Consumer
from tests.conformance.driving import attempts
from tests.conformance.everything import lines, tables
from tests.conformance.troubles import KINDS, Trouble
from webhooks_app import signals
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.test_send import test_send as send_test
from webhooks_app.models import Attempt, Endpoint, Event

Emit = Callable[..., str]
PATH, QUERY = b"P4TH-CANARY", b"QU3RY-CANARY"
OWN_VIEWS = {"webhooks_app_endpoint"}


@pytest.fixture
def told() -> Iterator[list[str]]:
    """What the signals say."""
    said: list[str] = []

    def hear(**values: Any) -> None:
        said.append(repr(values))

    heard = (signals.attempt_recorded, signals.delivery_ended, signals.endpoint_disabled)
    for signal in heard:
        signal.connect(hear, weak=False)
    yield said
    for signal in heard:
        signal.disconnect(hear)


@pytest.fixture
def registered(db: None, consumer: Consumer) -> Endpoint:
    """An endpoint whose URL holds a secret in its path and another in its query."""
    return make_endpoint(url=f"{consumer.url}/{PATH.decode()}?token={QUERY.decode()}")


@pytest.mark.parametrize("trouble", KINDS)
def test_whatever_fails(
    trouble: str,
    registered: Endpoint,
    emit: Emit,
    told: list[str],
    caplog: pytest.LogCaptureFixture,
    consumer: Consumer,
    product: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
):
    getattr(Trouble(registered, consumer, product, monkeypatch), trouble)()
    with caplog.at_level(logging.DEBUG):
        emit()
        assert [attempt.error for attempt in attempts()] == [trouble]
        send_test(OPERATOR, registered)
        if trouble != "status_410":
            disable(OPERATOR, registered)
        answers = api_answers(registered)
        delete_endpoint(OPERATOR, registered)
    check_tables()
    assert bool(Event.objects.filter(type="webhook.disabled")) == (trouble == "status_410")
    assert len(told) >= 1
    for text in (lines(caplog.records), repr(told).encode(), *answers):
        for canary in (PATH, QUERY):
            assert canary not in text


def check_tables() -> None:
    """The query is kept with the endpoint alone, the path also in the evidence that its owner reads."""
    for name, rows in tables(without=OWN_VIEWS).items():
        assert QUERY not in rows, name
        assert (PATH in rows) == (name == "webhooks_app_attempt"), name


def api_answers(endpoint: Endpoint) -> list[bytes]:
    """Return what the API says about an endpoint beside the endpoint itself and its evidence."""
    key = create_api_key(OPERATOR, scope="tenant", scope_id="acme", permissions=["webhooks:manage"]).key
    client = Client(HTTP_AUTHORIZATION=f"Bearer {key}")
    own = f"/webhooks/v1/webhooks/{endpoint.public_id}"
    evidence = client.get(f"{own}/attempts").content
    assert PATH in evidence
    assert QUERY not in evidence
    assert PATH in client.get(own).content
    return [client.get(path).content for path in (f"{own}/deliveries", "/webhooks/v1/events")]


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.customer.com/P4TH-CANARY?token=QU3RY-CANARY",
        "https://user:US3R-CANARY@hooks.customer.com/P4TH-CANARY",
        "https://10.0.0.1/P4TH-CANARY?token=QU3RY-CANARY",
        "https://hooks.customer.com/P4TH-CANARY#QU3RY-CANARY",
        "https://P4TH-CANARY..customer.com/?QU3RY-CANARY",
        "https://[P4TH-CANARY/?QU3RY-CANARY",
        "https://localhost/P4TH-CANARY",
    ],
)
def test_a_refusal_repeats_nothing_of_it(db: None, url: str, caplog: pytest.LogCaptureFixture):  # B087
    key = create_api_key(OPERATOR, scope="tenant", scope_id="acme", permissions=["webhooks:manage"]).key
    client = Client(HTTP_AUTHORIZATION=f"Bearer {key}")
    with caplog.at_level(logging.DEBUG):
        answer = client.post(
            "/webhooks/v1/webhooks", {"url": url, "events": ["*"]}, content_type="application/json"
        )
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "url")
    for text in (answer.content, lines(caplog.records), *tables().values()):
        assert b"CANARY" not in text


def test_exceptions_of_the_client_library_are_not_kept(
    registered: Endpoint, emit: Emit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """What `requests` raises names the URL; the evidence has a word of ours instead."""

    def fail(self: Any, request: Any, **_: Any) -> None:
        raise requests.ConnectionError(f"cannot reach {request.url}")

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", fail)
    with caplog.at_level(logging.DEBUG):
        emit()
    attempt = Attempt.objects.get()
    assert (attempt.error, attempt.detail) == ("dns", "failed")
    for text in (lines(caplog.records), *tables(without=OWN_VIEWS).values()):
        assert QUERY not in text
