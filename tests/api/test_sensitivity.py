"""Sensitive event types: what takes their permission, what does not, and that nothing is done without it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api
from webhooks_app import emit, event_type, event_types
from webhooks_app.actions.actor import PERMISSIONS
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.models import Delivery, Endpoint, Event
from webhooks_app.pipeline import manual

pytestmark = pytest.mark.django_db

URL = "https://x.hooks.test/in"
OTHER = "https://y.hooks.test/in"
SINCE = "2026-10-01T00:00:00Z"


@pytest.fixture(autouse=True)
def types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "_types", {})
    event_type("order.paid")
    event_type("message.received", permission="messages:read")
    event_type("message.quarantined", permission="quarantine:review")


@pytest.fixture
def reader(api: Callable[..., Api]) -> Api:
    """A key that may read messages, and not what is in quarantine."""
    return api(permissions=[*PERMISSIONS, "messages:read"])


def denied(api: Api, method: str, path: str, body: Any) -> list[str]:
    before = rows.snapshot()
    response = api.send(method, path, body)
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert rows.snapshot() == before
    required: list[str] = response.json()["details"]["required"]
    assert all(name in response.json()["fix"] for name in required)
    return required


def kept(kind: str) -> Event:
    """An event of just now that has its body."""
    moment = timezone.now()
    return rows.event(type=kind, occurred_at=moment, recorded_at=moment, body=b"{}")


@pytest.mark.parametrize(
    ("events", "required"),
    [
        (["*"], ["messages:read", "quarantine:review"]),
        (["message.*"], ["messages:read", "quarantine:review"]),
        (["order.paid", "message.received"], ["messages:read"]),
        (["message.quarantined"], ["quarantine:review"]),
    ],
)
def test_what_a_new_webhook_takes(mine: Api, events: list[str], required: list[str]) -> None:
    assert denied(mine, "POST", "/webhooks", {"url": URL, "events": events}) == required


@pytest.mark.parametrize("events", [[], ["order.paid"], ["order.*", "messages.*"], ["message"]])
def test_others_take_nothing(mine: Api, events: list[str]) -> None:
    assert mine.post("/webhooks", {"url": URL, "events": events}).status_code == 201


def test_only_what_is_missing_is_named(reader: Api) -> None:
    assert denied(reader, "POST", "/webhooks", {"url": URL, "events": ["*"]}) == ["quarantine:review"]
    assert reader.post("/webhooks", {"url": URL, "events": ["message.received"]}).status_code == 201


def test_faults_come_first(mine: Api) -> None:
    assert mine.post("/webhooks", {"url": "x", "events": ["*"]}).status_code == 400


@pytest.mark.parametrize(
    ("before", "change"),
    [
        (["order.paid"], {"events": ["*"]}),
        (["message.received"], {"url": OTHER}),
        (["order.paid"], {"events": ["message.*"], "url": OTHER}),
        # What waits there would go to the new URL.
        (["message.received"], {"events": ["order.paid"], "url": OTHER}),
    ],
)
def test_changes_that_take_it(mine: Api, before: list[str], change: Any) -> None:
    path = f"/webhooks/{rows.endpoint(events=before).public_id}"
    assert "messages:read" in denied(mine, "PATCH", path, {**change, "description": "x"})


@pytest.mark.parametrize(
    "change",
    [
        {"events": ["order.paid"]},
        {"events": ["message.received"]},
        {"url": URL.replace("/in", "/in")},
        {"description": "x", "enabled": False},
    ],
)
def test_changes_that_do_not(mine: Api, change: Any) -> None:
    """Less is always allowed, and so is what is there already."""
    endpoint = rows.endpoint(events=["message.received"])
    assert mine.patch(f"/webhooks/{endpoint.public_id}", change).status_code == 200


def test_a_new_url_takes_that_of_what_waits_whatever_the_events_are_now(mine: Api, reader: Api) -> None:
    endpoint = rows.endpoint(events=["order.paid"])
    rows.delivery(endpoint, kept("message.received"))
    rows.delivery(endpoint, kept("message.quarantined"), state="exhausted")
    path, change = f"/webhooks/{endpoint.public_id}", {"url": OTHER, "retarget_pending": True}
    assert denied(mine, "PATCH", path, change) == ["messages:read"]
    assert reader.patch(path, change).status_code == 200


def test_reading_what_one_says_takes_that_of_its_type(mine: Api, reader: Api) -> None:
    message, plain = kept("message.received"), kept("order.paid")
    Event.objects.update(body=b'{"data":{"n":1}}')
    path = f"/events/{message.public_id}"
    assert denied(mine, "GET", path, None) == ["messages:read"]
    assert reader.get(path).json()["data"] == {"n": 1}
    assert mine.get(f"/events/{plain.public_id}").json()["data"] == {"n": 1}
    assert len(mine.get("/events").json()["data"]) == 2


def test_reading_one_that_is_yet_to_be_fanned_out_takes_it_too(mine: Api, reader: Api) -> None:
    with transaction.atomic():
        ref = emit("message.received", {"n": 1}, tenant="a")
    Event.objects.all().delete()
    assert denied(mine, "GET", f"/events/{ref.id}", None) == ["messages:read"]
    assert reader.get(f"/events/{ref.id}").json()["data"] == {"n": 1}


def test_a_reply_is_shown_to_whoever_may_read_what_it_may_repeat(mine: Api, reader: Api) -> None:
    endpoint = rows.endpoint()
    shown = {"headers": [{"name": "a", "value": "b"}], "body": "echo"}
    made = {"reply_headers": [["a", "b"]], "reply_body": b"echo"}
    attempts = {
        kind: rows.attempt(endpoint, event_type=kind, **made) for kind in ("order.paid", "message.received")
    }
    expected: dict[str, Any] = {"order.paid": shown, "message.received": None}
    for kind, attempt in attempts.items():
        assert mine.get(f"/attempts/{attempt.public_id}").json()["reply"] == expected[kind]
        assert reader.get(f"/attempts/{attempt.public_id}").json()["reply"] == shown
    listed = mine.get(f"/webhooks/{endpoint.public_id}/attempts").json()["data"]
    assert {each["event_type"]: each["reply"] for each in listed} == expected


def test_queueing_the_past_takes_it(mine: Api, reader: Api) -> None:
    endpoint, plain = rows.endpoint(events=["message.received"]), rows.endpoint(events=["order.paid"])
    rows.event(type="message.received")
    path = f"/webhooks/{endpoint.public_id}"
    for verb, body in (("replay", {"since": SINCE}), ("recover", {"since": SINCE})):
        assert denied(mine, "POST", f"{path}/{verb}", body) == ["messages:read"]
        assert mine.post(f"/webhooks/{plain.public_id}/{verb}", body).status_code == 202
        assert reader.post(f"{path}/{verb}", body).status_code == 202
    there = {"since": SINCE, "to": endpoint.public_id}
    assert denied(mine, "POST", f"/webhooks/{plain.public_id}/replay", there) == ["messages:read"]


def test_sending_one_again_takes_that_of_its_type(
    mine: Api, reader: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = rows.endpoint(events=["*"])
    asked: list[int] = []
    monkeypatch.setattr(manual, "send_now", lambda alias, pk: asked.append(pk) or manual.Manual(None, ""))
    message = rows.delivery(endpoint, kept("message.received"), state="exhausted")
    plain = rows.delivery(endpoint, kept("order.paid"), state="exhausted")
    path = f"/deliveries/{message.public_id}/resend"
    assert denied(mine, "POST", path, {}) == ["messages:read"]
    assert asked == []
    reader.post(path, {}), mine.post(f"/deliveries/{plain.public_id}/resend", {})
    assert asked == [message.pk, plain.pk]


def test_retrying_many_takes_that_of_what_is_named_and_leaves_out_the_rest(mine: Api, reader: Api) -> None:
    all_of_it, plain = rows.endpoint(events=["*"]), rows.endpoint(events=["order.paid"])
    for kind in ("message.received", "message.quarantined", "order.paid"):
        rows.delivery(all_of_it, kept(kind), state="exhausted")
    path = "/deliveries/bulk-retry"
    assert denied(mine, "POST", path, {"event_type": "message.received"}) == ["messages:read"]
    assert denied(reader, "POST", path, {"webhook_id": all_of_it.public_id}) == ["quarantine:review"]
    for body in ({"webhook_id": plain.public_id}, {"event_type": "order.sent"}):
        assert mine.post(path, body).json()["total"] == 0
    named = {"webhook_id": all_of_it.public_id, "event_type": "message.received"}
    assert (mine.post(path, {}).json()["total"], reader.post(path, named).json()["total"]) == (1, 1)
    run_jobs()
    pending = Delivery.objects.filter(state="pending").values_list("event__type", flat=True)
    assert sorted(pending) == ["message.received", "order.paid"]


def test_other_verbs_do_not(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint(events=['*']).public_id}"
    for verb in ("pause", "resume", "rotate-secret", "test"):
        assert mine.post(f"{path}/{verb}", {}).status_code == 200
    assert mine.get(path).status_code == 200
    assert mine.delete(path).status_code == 204


def test_the_operators_people_need_none() -> None:
    user = get_user_model().objects.create_user("ann", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="add_endpoint"))
    client = Client()
    client.force_login(user)
    assert Api(client=client).post("/webhooks", {"url": URL, "events": ["*"]}).status_code == 201


def test_a_platform_key_is_no_operator(api: Callable[..., Api]) -> None:
    assert denied(api("platform"), "POST", "/webhooks", {"url": URL, "events": ["*"]})
    assert not Endpoint.objects.exists()
