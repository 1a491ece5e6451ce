"""Test and replay, as the API answers them."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.actions import test_send as test_send_module
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.destinations.base import Sent
from webhooks_app.models import Attempt, Delivery, EndpointState, Tenant

pytestmark = pytest.mark.django_db


def answering(monkeypatch: pytest.MonkeyPatch, **result: Any) -> None:
    sent = Sent(AttemptResult(**result), signature="v1,x", body_sha256=b"\0" * 32)
    monkeypatch.setattr(test_send_module.https, "send", lambda *_, **__: sent)


def test_a_test_that_succeeds(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, http_status=200, duration_ms=7, headers=(("X-A", "1"),), body=b"ok\0\xff")
    endpoint = rows.endpoint(url="https://x.hooks.test/in?token=S3CRET")
    response = mine.post(f"/webhooks/{endpoint.public_id}/test")
    assert response.status_code == 200
    shown = response.json()
    assert shown.pop("created_at")
    assert shown.pop("event_id").startswith("evt_")
    assert shown.pop("id") == Attempt.objects.get().public_id
    assert shown == {
        "webhook_id": endpoint.public_id,
        "delivery_id": None,
        "event_type": "webhook.test",
        "number": 1,
        "trigger": "test",
        "status": "succeeded",
        "error": None,
        "http_status": 200,
        "duration_ms": 7,
        "url": "https://x.hooks.test/in",
        "reply": {"headers": [{"name": "X-A", "value": "1"}], "body": "ok\ufffd"},
        "next_attempt_at": None,
    }


def test_a_test_that_fails_is_an_answer_and_no_error(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, error="timeout", duration_ms=15_000)
    endpoint = rows.endpoint()
    EndpointState.objects.filter(endpoint=endpoint).update(enabled=False, paused_at=rows.NOW)
    response = mine.post(f"/webhooks/{endpoint.public_id}/test", {})
    assert response.status_code == 200
    shown = response.json()
    assert (shown["status"], shown["error"], shown["http_status"]) == ("failed", "timeout", None)
    assert mine.get(f"/webhooks/{endpoint.public_id}/attempts").json()["data"] == [shown]


def test_replay_by_id(mine: Api) -> None:
    endpoint = rows.endpoint()
    now = timezone.now()
    events = [rows.event(occurred_at=now, recorded_at=now, fanned_out_at=now) for _ in range(3)]
    body = {"event_ids": [event.public_id for event in events]}
    response = mine.post(f"/webhooks/{endpoint.public_id}/replay", body)
    assert (response.status_code, response.json()) == (202, {"queued": 3})
    assert Delivery.objects.filter(endpoint=endpoint).count() == 3


def test_replay_of_a_time_span(mine: Api) -> None:
    endpoint = rows.endpoint()
    now = timezone.now()
    rows.event(occurred_at=now, recorded_at=now, fanned_out_at=now)
    since = (now - timedelta(hours=1)).isoformat()
    path = f"/webhooks/{endpoint.public_id}/replay"
    assert mine.post(path, {"since": since}).json() == {"queued": 1}
    assert mine.post(path, {"since": since, "status": "dead"}).json() == {"queued": 0}


def test_replay_at_a_disabled_webhook(mine: Api) -> None:
    endpoint = rows.endpoint()
    EndpointState.objects.filter(endpoint=endpoint).update(enabled=False)
    event = rows.event(occurred_at=timezone.now(), recorded_at=timezone.now())
    response = mine.post(f"/webhooks/{endpoint.public_id}/replay", {"event_ids": [event.public_id]})
    assert (response.status_code, response.json()["code"]) == (409, "webhook_disabled")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "event_ids"),
        ({"until": "2026-10-01T00:00:00Z"}, "event_ids"),
        ({"event_ids": ["a"], "since": "2026-10-01T00:00:00Z"}, "event_ids"),
        ({"since": "2026-10-01T00:00:00Z", "until": "2026-09-01T00:00:00Z"}, "until"),
        ({"event_ids": ["a"], "status": "dead"}, "status"),
        ({"event_ids": ["a", "a"]}, "event_ids"),
        ({"event_ids": []}, "event_ids"),
        ({"event_ids": [f"e{n}" for n in range(101)]}, "event_ids"),
    ],
)
def test_replay_chooses_one_way(mine: Api, body: Any, path: str) -> None:
    endpoint = rows.endpoint()
    assert list(errors(mine.post(f"/webhooks/{endpoint.public_id}/replay", body))) == [path]


@pytest.mark.parametrize("verb", ["test", "resend"])
def test_nothing_is_sent_for_a_suspended_tenant(mine: Api, verb: str) -> None:
    endpoint = rows.endpoint()
    Tenant.objects.filter(pk="a").update(suspended_at=timezone.now())
    resent = f"/deliveries/{rows.delivery(endpoint).public_id}/resend"
    response = mine.post(resent if verb == "resend" else f"/webhooks/{endpoint.public_id}/test")
    assert (response.status_code, response.json()["code"]) == (409, "tenant_suspended")
    assert "suspension" in response.json()["fix"]
