"""What leaves on the wire and what is kept of it: signatures, rotation, faults of secrets, evidence."""

import base64
import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import standardwebhooks
import svix.webhooks
from django.utils import timezone

from webhooks_app import __version__
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.destinations.config import load_configs
from webhooks_app.destinations.sealing import seal_header, seal_secret
from webhooks_app.models import Delivery, Endpoint, EndpointSecret, EndpointState, OutboxEntry
from webhooks_app.pipeline import announce, inline, sending
from webhooks_app.pipeline.sending import Configs
from webhooks_app.signals import attempt_recorded

from .conftest import Clock
from .driving import attempt, attempts_of, claim, run_path, send, waiting
from .factories import OLD_SECRET, SECRET, EndpointFactory, SecretFactory, emit_for
from .receiver import OK, Receiver, headers_of, reply

pytestmark = pytest.mark.django_db


@pytest.fixture
def library_time(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    """Let the verifying libraries live in the path's time."""

    class Moved(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + clock.ahead

    monkeypatch.setattr(standardwebhooks.webhooks, "datetime", Moved)


def signatures(request: Any) -> list[str]:
    return headers_of(request)["webhook-signature"].split(" ")


def verified(request: Any, secret: str, *, only: int | None = None) -> bool:
    headers = headers_of(request)
    if only is not None:
        headers["webhook-signature"] = signatures(request)[only]
    try:
        standardwebhooks.Webhook(secret).verify(request.body, headers)
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


def test_the_official_libraries_verify_a_request(receiver: Receiver):
    """B062"""
    endpoint = EndpointFactory()
    emit_for(endpoint, data={"text": "😊 \u2028 \x1b ü"})
    run_path()
    (request,) = receiver.requests
    assert verified(request, SECRET)
    assert not verified(request, OLD_SECRET)
    svix.webhooks.Webhook(SECRET).verify(request.body, headers_of(request))


def test_the_request_carries_these_headers(receiver: Receiver):
    endpoint = EndpointFactory(method="PUT")
    (ref,) = emit_for(endpoint)
    run_path()
    (request,) = receiver.requests
    headers = headers_of(request)
    assert request.method == "PUT"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"] == f"django-webhooks-app/{__version__}"
    assert headers["webhook-id"] == ref.id
    assert headers["webhook-endpoint-id"] == endpoint.public_id
    assert headers["webhook-attempt"] == "1"
    assert headers["webhook-event-type"] == "order.paid"
    (row,) = attempts_of(Delivery.objects.get())
    assert headers["webhook-delivery-id"] == row.public_id
    assert row.signature == headers["webhook-signature"]


def test_every_attempt_sends_the_same_bytes_with_a_fresh_timestamp(
    receiver: Receiver, clock: Clock, library_time: None
):
    """B046"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    moments = []
    for hours in (0, 1, 2.5, 30):
        clock.advance(hours=hours)
        Delivery.objects.update(due_at=timezone.now())
        run_path()
        moments.append(timezone.now() + clock.ahead)
        assert verified(receiver.requests[-1], SECRET)
    assert {request.body for request in receiver.requests} == {bytes(OutboxEntry.objects.get().body)}
    assert len(set(receiver.ids())) == 1
    assert len({headers_of(request)["webhook-delivery-id"] for request in receiver.requests}) == 4
    for request, moment in zip(receiver.requests, moments, strict=True):
        assert abs(int(headers_of(request)["webhook-timestamp"]) - moment.timestamp()) < 5


def test_the_timestamp_is_the_moment_of_sending_not_of_the_claim(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """B046"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    held = claim(endpoint)
    monkeypatch.setattr(sending.time, "monotonic", lambda: held.mark + 9)
    send(held)
    stamped = int(headers_of(receiver.requests[0])["webhook-timestamp"])
    assert stamped == int((held.claimed_at + timedelta(seconds=9)).timestamp())


def rotate(endpoint: Endpoint, until: datetime | None) -> None:
    """What the action does: the old key ends, a new one signs, the revision rises."""
    EndpointSecret.objects.filter(endpoint=endpoint).update(expires_at=until)
    SecretFactory(endpoint=endpoint, version=2, text=SECRET)
    Endpoint.objects.filter(pk=endpoint.pk).update(revision=endpoint.revision + 1)


def test_rotation_with_an_overlap(receiver: Receiver, clock: Clock, library_time: None):
    """B035"""
    endpoint = EndpointFactory(secret__text=OLD_SECRET)
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    run_path()
    rotate(endpoint, timezone.now() + timedelta(hours=24))
    for hours in (1, 24):
        clock.advance(hours=hours)
        Delivery.objects.update(due_at=timezone.now())
        run_path()
    before, within, after = receiver.requests
    assert [len(signatures(request)) for request in (before, within, after)] == [1, 2, 1]
    clock.ahead = timedelta(0)
    assert verified(before, OLD_SECRET)
    clock.advance(hours=1)
    assert headers_of(within)["webhook-signature"].count(" ") == 1
    assert verified(within, SECRET, only=0)
    assert verified(within, OLD_SECRET, only=1)
    assert verified(within, SECRET)
    assert verified(within, OLD_SECRET)
    clock.advance(hours=24)
    assert verified(after, SECRET)
    assert not verified(after, OLD_SECRET)


def test_an_overlap_that_ends_needs_no_new_revision(receiver: Receiver, clock: Clock):
    """A process keeps the configuration of an endpoint; the end of a key must not depend on a change."""
    endpoint = EndpointFactory(secret__text=OLD_SECRET)
    rotate(endpoint, timezone.now() + timedelta(hours=1))
    waiting(endpoint, 2)
    configs = Configs()
    counts = []
    for _ in range(2):
        held = claim(endpoint)
        send(held, configs=configs)()
        counts.append(len(signatures(receiver.requests[-1])))
        clock.advance(hours=2)
        waiting(endpoint)
    assert counts == [2, 1]


def test_a_success_notes_the_use_of_keys_that_signed(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(secret__text=OLD_SECRET)
    rotate(endpoint, timezone.now() - timedelta(minutes=1))
    receiver.script(endpoint, reply(500))
    waiting(endpoint)
    run_path()
    assert not EndpointSecret.objects.filter(last_used_at__isnull=False).exists()
    emit_for(endpoint)
    run_path()
    assert list(
        EndpointSecret.objects.filter(last_used_at__isnull=False).values_list("version", flat=True)
    ) == [2]


def other_master_key(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    configure(MASTER_KEYS=[base64.b64encode(b"another key of thirty-two bytes.").decode()])


def moved_from_another_row(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    other = EndpointFactory()
    EndpointSecret.objects.filter(endpoint=endpoint).update(sealed=other.secrets.get().sealed)


def moved_to_another_version(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    EndpointSecret.objects.filter(endpoint=endpoint).update(version=2)


def moved_from_a_header(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    sealed = seal_header(endpoint.public_id, "X-Token", SECRET)
    EndpointSecret.objects.filter(endpoint=endpoint).update(sealed=sealed)


def header_from_a_secret(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    sealed = endpoint.secrets.get().sealed
    Endpoint.objects.update(headers=[{"name": "X-Token", "sealed": sealed, "secret": True}])


def damaged(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    EndpointSecret.objects.filter(endpoint=endpoint).update(sealed="whs1.nonsense")


def empty_key(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    sealed = seal_secret(endpoint.public_id, 1, "whsec_")
    EndpointSecret.objects.filter(endpoint=endpoint).update(sealed=sealed)


def no_key(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    EndpointSecret.objects.all().delete()


def expired_key(endpoint: Endpoint, configure: Callable[..., None]) -> None:
    EndpointSecret.objects.update(expires_at=timezone.now() - timedelta(minutes=1))


FAULTS = [
    other_master_key,
    moved_from_another_row,
    moved_to_another_version,
    moved_from_a_header,
    header_from_a_secret,
    damaged,
    empty_key,
    no_key,
    expired_key,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_secret_that_does_not_open_sends_nothing(
    fault: Callable[[Endpoint, Callable[..., None]], None],
    receiver: Receiver,
    configure: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    """B065, B072"""
    monkeypatch.setattr(announce, "_next_word_at", 0.0)
    endpoint = EndpointFactory(state__consecutive_failures=5)
    fault(endpoint, configure)
    (delivery,) = waiting(endpoint)
    run_path()
    assert not receiver.to(endpoint)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error, delivery.step) == ("pending", "secret_unavailable", 1)
    (row,) = attempts_of(delivery)
    assert (row.status, row.error, row.signature, row.http_status) == (
        "failed",
        "secret_unavailable",
        "",
        None,
    )
    assert EndpointState.objects.get(pk=endpoint.pk).consecutive_failures == 5
    assert f"no master key opens the secrets of webhook {endpoint.public_id}" in caplog.text
    assert SECRET not in caplog.text


def test_a_secret_that_opens_again_delivers(receiver: Receiver, configure: Callable[..., None], clock: Clock):
    """B072"""
    endpoint = EndpointFactory()
    sealed = endpoint.secrets.get().sealed
    damaged(endpoint, configure)
    waiting(endpoint)
    run_path()
    EndpointSecret.objects.update(sealed=sealed)
    Endpoint.objects.update(revision=2)
    clock.advance(minutes=1)
    run_path()
    assert verified(receiver.requests[0], SECRET)


def test_a_changed_url_is_used_from_the_next_lease_on(receiver: Receiver, clock: Clock):
    """B022"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    configs = Configs()
    send(claim(endpoint), configs=configs)()
    Endpoint.objects.update(url="https://new.example/hook", revision=2)
    clock.advance(minutes=1)
    send(claim(endpoint), configs=configs)()
    assert [request.url for request in receiver.requests] == [endpoint.url, "https://new.example/hook"]
    assert Delivery.objects.get().state == "delivered"


def test_a_process_keeps_a_bounded_number_of_configurations():
    configs = Configs(size=2)
    endpoints = EndpointFactory.create_batch(3)
    for endpoint in (*endpoints, endpoints[1]):
        configs.add(load_configs("default", [endpoint.pk]))
    assert configs.missing({endpoint.pk: 1 for endpoint in endpoints}) == [endpoints[0].pk]
    assert configs.missing({endpoints[2].pk: 2}) == [endpoints[2].pk]
    assert SECRET not in repr(configs.get(endpoints[2].pk))


def test_custom_headers_travel_and_secret_ones_are_opened(receiver: Receiver):
    endpoint = EndpointFactory()
    sealed = seal_header(endpoint.public_id, "X-Token", "hush")
    Endpoint.objects.update(
        headers=[{"name": "X-Plain", "value": "1"}, {"name": "X-Token", "sealed": sealed, "secret": True}]
    )
    waiting(endpoint)
    run_path()
    headers = headers_of(receiver.requests[0])
    assert (headers["x-plain"], headers["x-token"]) == ("1", "hush")


@pytest.mark.parametrize(
    "header", [{"name": "X-A", "value": "a\r\nX-B: 1"}, {"name": "webhook-id", "value": "x"}]
)
def test_a_bad_header_in_an_old_row_sends_nothing(header: dict[str, str], receiver: Receiver):
    """B073"""
    endpoint = EndpointFactory(headers=[header])
    (delivery,) = waiting(endpoint)
    run_path()
    assert not receiver.requests
    delivery.refresh_from_db()
    assert (delivery.last_error, delivery.attempts) == ("invalid_url", 1)


def test_the_evidence_of_an_attempt(receiver: Receiver):
    """B146"""
    endpoint = EndpointFactory(url="https://receiver.example/hook?token=S3CRET")
    answer = AttemptResult(
        error="status_5xx",
        http_status=503,
        detail="body_reset",
        duration_ms=321,
        target_ip="127.0.0.1",
        headers=(("Server", "ü\ufffd"), ("X", "<script>")),
        body=b"\x00\xff<b>",
        body_complete=False,
    )
    receiver.script(endpoint, answer)
    (delivery,) = waiting(endpoint)
    run_path()
    (row,) = attempts_of(delivery)
    body = bytes(OutboxEntry.objects.get().body)
    assert (row.endpoint_id, row.event_id, row.event_type) == (
        endpoint.pk,
        json.loads(body)["id"],
        "order.paid",
    )
    assert (row.number, row.trigger, row.status, row.error) == (1, "schedule", "failed", "status_5xx")
    assert (row.http_status, row.duration_ms, row.detail) == (503, 321, "body_reset")
    assert (row.url, row.target_ip) == ("https://receiver.example/hook", "127.0.0.1")
    assert bytes(row.body_sha256) == hashlib.sha256(body).digest()
    assert [tuple(each) for each in row.reply_headers] == list(answer.headers)
    assert bytes(row.reply_body) == answer.body
    delivery.refresh_from_db()
    assert row.next_attempt_at == delivery.due_at


def test_each_attempt_is_told_once_after_the_commit(receiver: Receiver):
    told = []

    def listen(**values: Any) -> None:
        told.append((values["number"], values["status"], values["error"], values["http_status"]))

    attempt_recorded.connect(listen)
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    receiver.script(endpoint, reply(404), OK)
    attempt(endpoint)
    assert sorted(told) == [(1, "failed", "status_4xx", 404), (1, "succeeded", "", 200)]
    attempt_recorded.disconnect(listen)


def test_a_listener_that_raises_stops_nothing(receiver: Receiver):
    def listen(**values: Any) -> None:
        raise ValueError("a host's receiver")

    attempt_recorded.connect(listen)
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    inline.deliver([endpoint.pk])
    attempt_recorded.disconnect(listen)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
