"""A secret is in the answer that made it, and then in nothing that is stored, sent, shown or logged."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.consumer import Consumer
from tests.conformance.driving import SECRET, delivery, let_due
from tests.conformance.everything import holds, lines, spellings, tables
from tests.net.servers import reply
from tests.pipeline.conftest import Clock
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.conf import current
from webhooks_app.core.secrets import parse
from webhooks_app.core.signing import SigningKey, verify
from webhooks_app.destinations.sealing import seal_secret
from webhooks_app.models import Attempt, Endpoint, EndpointSecret
from webhooks_app.net import resolver

Emit = Callable[..., str]
HEADER = "a secret value of a header"
ROOT = "/webhooks/v1"
READS = (
    *("/webhooks", "/webhooks/{id}", "/webhooks/{id}/attempts", "/webhooks/{id}/deliveries", "/events"),
    *("/openapi.json", "/docs/"),
)


class Told:
    """The secrets that were told, and everything else that was said or sent since."""

    def __init__(self) -> None:
        self.secrets: list[str] = []
        self.texts: list[bytes] = []

    def once(self, answer: Any) -> Any:
        """Take the secret out of an answer that shows one, and nothing beside."""
        assert answer.status_code in (200, 201), answer.content
        assert "no-store" in answer["Cache-Control"]
        secret = answer.json()["secret"]
        assert answer.content.count(secret.encode()) == 1
        self.secrets.append(secret)
        return answer.json()

    def keep(self, *answers: Any) -> None:
        """Keep what answers say, their headers and cookies included."""
        for answer in answers:
            self.texts.append(f"{answer.headers} {answer.cookies}".encode() + answer.content)


@pytest.fixture
def key(db: None) -> str:
    return create_api_key(OPERATOR, scope="tenant", scope_id="acme", permissions=["webhooks:manage"]).key


def test_over_the_whole_life_of_an_endpoint(
    key: str,
    emit: Emit,
    consumer: Consumer,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    admin_client: Client,
    django_capture_on_commit_callbacks: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    """B071: register, send, fail, rotate, retry, test, replay, look at every page, prune, reseal, delete."""
    monkeypatch.setattr(resolver, "system_addresses", lambda host: ("127.0.0.1",))
    client, told = Client(HTTP_AUTHORIZATION=f"Bearer {key}", content_type="application/json"), Told()

    def post(path: str, body: Any) -> Any:
        with django_capture_on_commit_callbacks(execute=True):
            return client.post(ROOT + path, body, content_type="application/json")

    with caplog.at_level(logging.DEBUG):
        headers = [{"name": "X-Key", "value": HEADER, "secret": True}]
        made = told.once(post("/webhooks", {"url": consumer.url, "events": ["*"], "headers": headers}))
        own = f"/webhooks/{made['id']}"
        consumer.answer(reply("500 Oops"))
        event_id = emit()
        told.once(post(f"{own}/rotate-secret", {"overlap_hours": 1}))
        let_due(clock)
        told.keep(post(f"{own}/test", {}), post(f"{own}/replay", {"event_ids": [event_id]}))
        told.keep(*(client.get(ROOT + path.format(id=made["id"])) for path in READS))
        told.keep(*(admin_client.get(page) for page in admin_pages()))
        for command in ("webhooks_doctor", "webhooks_reseal", "webhooks_prune"):
            run(command)
        kept = tables()
        told.keep(client.delete(f"{ROOT}{own}"))
    assert delivery().state == "delivered"
    assert len(consumer.requests) == 4
    told.texts += [lines(caplog.records), capsys.readouterr().out.encode()]
    told.texts += [request.body + request.line.encode() for request in consumer.requests]
    for name, text in [*kept.items(), *enumerate(told.texts)]:
        for secret in told.secrets:
            assert not holds(text, parse(secret)), name
            assert not holds(text, secret), name
        for master_key in current().MASTER_KEYS:
            assert not holds(text, master_key), name
        assert not holds(text, HEADER), name
        assert not holds(text, key), name
    check_heads(consumer, told.secrets)
    assert not EndpointSecret.objects.exists()


def check_heads(consumer: Consumer, secrets: list[str]) -> None:
    """The head of a request holds its own secret header once, and no key of ours."""
    for request in consumer.requests:
        assert request.headers["x-key"] == HEADER
        for secret in secrets:
            assert not holds(request.head, parse(secret))
            assert not holds(request.head, secret)


def admin_pages() -> Iterator[str]:
    """Yield the list and one page of every model of the admin."""
    for model in ("endpoint", "attempt", "delivery", "event", "auditentry", "outboxentry", "apikey"):
        yield reverse(f"admin:webhooks_app_{model}_changelist")
    yield reverse("admin:webhooks_app_attempt_change", args=[Attempt.objects.latest("created_at").pk])
    pk = Endpoint.objects.get().pk
    yield reverse("admin:webhooks_app_endpoint_change", args=[pk])
    yield reverse("admin:webhooks_app_endpoint_history", args=[pk])


def run(command: str) -> None:
    """Run a management command; the doctor complains that neither worker nor beat is there."""
    with contextlib.suppress(SystemExit, CommandError):
        call_command(command)


def test_the_search_would_find_them(db: None):
    """The test above can fail: a key in any spelling is found in tables and lines."""
    make_endpoint(description="x" + parse(SECRET).hex())
    assert any(holds(text, parse(SECRET)) for text in tables().values())
    assert len(set(spellings(parse(SECRET)))) >= 7
    record = logging.LogRecord("x", logging.INFO, "", 0, "key %r", (parse(SECRET),), None)
    assert holds(lines([record]), parse(SECRET))


@pytest.mark.parametrize("damage", ["swapped", "empty", "whsec_", "cut"])
def test_a_secret_that_is_not_this_rows_signs_nothing(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, damage: str
):
    """B065, B072: a row that was copied, emptied or cut fails loudly, and nothing leaves."""
    other = EndpointSecret.objects.get(endpoint=make_endpoint(url=consumer.url, tenant_id="other"))
    mine = EndpointSecret.objects.get(endpoint=endpoint)
    sealed = {
        "swapped": other.sealed,
        "empty": "",
        "whsec_": seal_secret(endpoint.public_id, 1, "whsec_"),
        "cut": mine.sealed[:-4],
    }[damage]
    EndpointSecret.objects.filter(pk=mine.pk).update(sealed=sealed)
    emit()
    assert consumer.requests == []
    (attempt,) = Attempt.objects.all()
    assert (attempt.status, attempt.error, attempt.signature) == ("failed", "secret_unavailable", "")
    assert delivery().state == "pending", "the key may come back"


@pytest.mark.parametrize("hours", [0, 24])
def test_a_rotation_heals_a_secret_that_does_not_open(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, hours: int
):
    """Also with an overlap: the old key is lost, the new one signs alone."""
    EndpointSecret.objects.update(sealed="whs1.broken")
    emit()
    rotated = rotate_secret(OPERATOR, endpoint, overlap_hours=hours)
    let_due(clock)
    assert delivery().state == "delivered"
    (request,) = consumer.requests
    signing = [SigningKey(parse(rotated.secret))]
    assert request.headers["webhook-signature"].count("v1,") == 1
    verify(signing, request.headers, request.body, now=int(request.headers["webhook-timestamp"]))
