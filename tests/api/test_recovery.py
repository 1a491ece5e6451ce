"""Recovery, as the API answers it: jobs, missed events, single deliveries, and replay's further fields."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.actions import missed as missed_module
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.destinations.base import Sent
from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointState, Event, IdempotencyRecord
from webhooks_app.pipeline import sending

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def event(age: timedelta = timedelta(hours=1), **fields: Any) -> Event:
    moment = timezone.now() - age
    values = {"occurred_at": moment, "recorded_at": moment, "fanned_out_at": moment, **fields}
    return rows.event(**values)


def old_endpoint(**fields: Any) -> Endpoint:
    row = rows.endpoint(**fields)
    Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 20 * DAY)
    return row


def dead(of: Endpoint, about: Event | None = None, **fields: Any) -> Delivery:
    about = about or event()
    values = {"state": "exhausted", "attempts": 13, "last_error": "timeout", "finished_at": timezone.now()}
    times = {"occurred_at": about.occurred_at, "created_at": about.recorded_at}
    return rows.delivery(of, about, **{**values, **times, **fields})


def text(moment: datetime) -> str:
    return moment.isoformat()


def yesterday() -> str:
    return text(timezone.now() - DAY)


def test_recovery_is_a_job(mine: Api) -> None:
    endpoint = old_endpoint()
    dead(endpoint)
    event()
    response = mine.post(f"/webhooks/{endpoint.public_id}/recover", {"since": yesterday()})
    assert response.status_code == 202
    job = response.json()
    expected = {"kind": "recover", "state": "queued", "webhook_id": endpoint.public_id, "total": 2, "done": 0}
    assert {name: job[name] for name in expected} == expected
    run_jobs()
    job = mine.get(f"/jobs/{job['id']}").json()
    assert (job["state"], job["done"], job["skipped"]) == ("succeeded", 2, 0)
    assert Delivery.objects.filter(state="pending").count() == 2


def test_recovery_refuses(mine: Api) -> None:
    endpoint = rows.endpoint()
    path = f"/webhooks/{endpoint.public_id}/recover"
    assert list(errors(mine.post(path, {}))) == ["since"]
    assert list(errors(mine.post(path, {"since": "yesterday"}))) == ["since"]
    assert list(errors(mine.post(path, {"since": yesterday(), "until": text(timezone.now() - 2 * DAY)}))) == [
        "until"
    ]
    EndpointState.objects.update(enabled=False)
    response = mine.post(path, {"since": yesterday()})
    assert (response.status_code, response.json()["code"]) == (409, "webhook_disabled")
    foreign = rows.endpoint("b")
    response = mine.post(f"/webhooks/{foreign.public_id}/recover", {"since": yesterday()})
    assert (response.status_code, response.json()["code"]) == (404, "webhook_not_found")


def test_the_same_key_begins_one_job(mine: Api) -> None:
    endpoint = old_endpoint()
    body = {"since": yesterday()}
    path = f"/webhooks/{endpoint.public_id}/recover"
    one, two = (mine.post(path, body, HTTP_IDEMPOTENCY_KEY="k") for _ in range(2))
    assert one.json() == two.json()
    assert len(mine.get("/jobs").json()["data"]) == 1


def test_missed_events(mine: Api) -> None:
    endpoint = old_endpoint()
    never, died = event(2 * timedelta(hours=1)), dead(endpoint)
    rows.delivery(endpoint, event(), state="delivered")
    page = mine.get(f"/webhooks/{endpoint.public_id}/missed").json()
    assert page["next_cursor"] is None
    first, second = page["data"]
    assert first.pop("occurred_at")
    assert second.pop("occurred_at")
    assert first == {
        "event_id": died.event.public_id,
        "event_type": "order.paid",
        "delivery_id": died.public_id,
        "state": "exhausted",
        "last_error": "timeout",
    }
    assert second == {
        "event_id": never.public_id,
        "event_type": "order.paid",
        "delivery_id": None,
        "state": None,
        "last_error": None,
    }


def test_missed_events_in_pages(mine: Api, api: Callable[..., Api], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_module, "STRETCH", 2)
    monkeypatch.setattr(missed_module, "STRETCHES", 1)
    endpoint = old_endpoint()
    expected = [event(hours * timedelta(hours=1)).public_id for hours in range(1, 8)]
    path, query, seen = f"/webhooks/{endpoint.public_id}/missed", {"limit": "3"}, []
    cursor = ""
    while cursor is not None:
        page = mine.get(path, {**query, "cursor": cursor} if cursor else query).json()
        seen += [each["event_id"] for each in page["data"]]
        first, cursor = cursor, page["next_cursor"]
    assert seen == expected
    assert list(errors(api("tenant:a").get(path, {**query, "cursor": first}))) == ["cursor"]
    assert list(errors(mine.get(path, {**query, "since": yesterday(), "cursor": first}))) == ["cursor"]


def test_missed_events_of_a_window(mine: Api) -> None:
    endpoint = old_endpoint()
    event(5 * DAY), event(timedelta(hours=1))
    path = f"/webhooks/{endpoint.public_id}/missed"
    wanted = event(2 * DAY)
    query = {"since": text(timezone.now() - 3 * DAY), "until": yesterday()}
    assert [each["event_id"] for each in mine.get(path, query).json()["data"]] == [wanted.public_id]
    assert list(errors(mine.get(path, {"since": "then"}))) == ["since"]
    response = mine.get(f"/webhooks/{rows.endpoint('b').public_id}/missed")
    assert (response.status_code, response.json()["code"]) == (404, "webhook_not_found")


def answering(monkeypatch: pytest.MonkeyPatch, **result: Any) -> None:
    sent = Sent(AttemptResult(**result), signature="v1,x", body_sha256=b"\0" * 32)
    monkeypatch.setattr(sending.https, "send", lambda *_, **__: sent)


def test_a_delivery_is_sent_at_once(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    job = dead(rows.endpoint())
    answering(monkeypatch, error="status_5xx", http_status=500, duration_ms=5)
    failed = mine.post(f"/deliveries/{job.public_id}/resend").json()
    assert (failed["status"], failed["trigger"], failed["number"]) == ("failed", "manual", 14)
    assert failed["delivery_id"] == job.public_id
    answering(monkeypatch, http_status=200, duration_ms=5)
    response = mine.post(f"/deliveries/{job.public_id}/resend", {})
    assert (response.status_code, response.json()["status"]) == (200, "succeeded")
    assert mine.get(f"/deliveries/{job.public_id}").json()["state"] == "delivered"
    assert Attempt.objects.count() == 2


def test_a_repeated_resend_has_the_reply_as_the_attempt_keeps_it(
    mine: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply may hold the payload: erased at the attempt, it is in no stored answer either."""
    job = dead(rows.endpoint())
    answering(monkeypatch, http_status=200, duration_ms=5, body=b"echo", headers=(("x-echo", "echo"),))
    key = {"HTTP_IDEMPOTENCY_KEY": "once"}
    first, second = (mine.post(f"/deliveries/{job.public_id}/resend", {}, **key) for _ in range(2))
    assert first.json() == second.json()
    assert first.json()["reply"] == {"headers": [{"name": "x-echo", "value": "echo"}], "body": "echo"}
    assert b"echo" not in bytes(IdempotencyRecord.objects.get().body)
    Attempt.objects.update(reply_body=b"", reply_headers=[])
    forgotten = {**first.json(), "reply": {"headers": [], "body": ""}}
    assert mine.post(f"/deliveries/{job.public_id}/resend", {}, **key).json() == forgotten
    Attempt.objects.all().delete()
    assert mine.post(f"/deliveries/{job.public_id}/resend", {}, **key).json() == forgotten


def test_a_delivery_is_cancelled(mine: Api) -> None:
    job = rows.delivery(rows.endpoint(), event(), due_at=timezone.now() + DAY)
    response = mine.post(f"/deliveries/{job.public_id}/cancel")
    assert (response.status_code, response.json()["state"]) == (200, "cancelled")
    again = mine.post(f"/deliveries/{job.public_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "delivery_ended")


@pytest.mark.parametrize("verb", ["resend", "cancel"])
def test_what_is_being_sent_and_what_is_not_ones_own(mine: Api, verb: str) -> None:
    lease = {"lease_token": "0" * 32, "lease_until": timezone.now() + DAY}
    job = rows.delivery(rows.endpoint(), event(), due_at=timezone.now(), **lease)
    busy = mine.post(f"/deliveries/{job.public_id}/{verb}")
    assert (busy.status_code, busy.json()["code"]) == (409, "delivery_in_flight")
    assert busy.json()["retryable"]
    for foreign in (rows.delivery(rows.endpoint("b")).public_id, "dlv_x"):
        response = mine.post(f"/deliveries/{foreign}/{verb}")
        assert (response.status_code, response.json()["code"]) == (404, "delivery_not_found")


def test_a_delivery_that_cannot_be_sent(mine: Api) -> None:
    endpoint = rows.endpoint()
    old, erased = dead(endpoint, event(31 * DAY)), dead(endpoint, event(body=None))
    for job in (old, erased):
        response = mine.post(f"/deliveries/{job.public_id}/resend")
        assert (response.status_code, response.json()["code"]) == (409, "event_unavailable")
    EndpointState.objects.update(enabled=False)
    response = mine.post(f"/deliveries/{old.public_id}/resend")
    assert (response.status_code, response.json()["code"]) == (409, "webhook_disabled")


def test_many_are_begun_anew(mine: Api) -> None:
    endpoint, other = rows.endpoint(), rows.endpoint()
    dead(endpoint), dead(endpoint, state="failed_permanent", last_error="status_4xx")
    dead(endpoint, event(type="invoice.sent")), dead(other), dead(rows.endpoint("b"))
    for filters, total in (
        ({}, 4),
        ({"webhook_id": endpoint.public_id}, 3),
        ({"status": "failed_permanent"}, 1),
        ({"error": "timeout", "event_type": "order.paid"}, 2),
        ({"since": yesterday(), "until": text(timezone.now())}, 4),
        ({"until": yesterday()}, 0),
    ):
        response = mine.post("/deliveries/bulk-retry", filters)
        assert response.status_code == 202
        assert (response.json()["kind"], response.json()["total"]) == ("bulk_retry", total)
    run_jobs()
    assert Delivery.objects.filter(state="pending").count() == 4


def test_bulk_retry_refuses(mine: Api) -> None:
    assert list(errors(mine.post("/deliveries/bulk-retry", {"status": "delivered"}))) == ["status"]
    assert list(errors(mine.post("/deliveries/bulk-retry", {"error": "x"}))) == ["error"]
    assert list(errors(mine.post("/deliveries/bulk-retry", {"event_type": "a b"}))) == ["event_type"]
    assert list(errors(mine.post("/deliveries/bulk-retry", {"webhook": "x"}))) == ["webhook"]
    response = mine.post("/deliveries/bulk-retry", {"webhook_id": rows.endpoint("b").public_id})
    assert (response.status_code, response.json()["code"]) == (404, "webhook_not_found")
    disabled = rows.endpoint()
    mine.patch(f"/webhooks/{disabled.public_id}", {"enabled": False})
    response = mine.post("/deliveries/bulk-retry", {"webhook_id": disabled.public_id})
    assert (response.status_code, response.json()["code"]) == (409, "webhook_disabled")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/webhooks/{}/recover"),
        ("GET", "/webhooks/{}/missed"),
        ("POST", "/deliveries/{}/resend"),
        ("POST", "/deliveries/{}/cancel"),
        ("POST", "/deliveries/bulk-retry"),
    ],
)
def test_permissions(api: Callable[..., Api], method: str, path: str) -> None:
    weak = api(permissions=["events:write"] if method == "GET" else ["webhooks:read"])
    response = weak.send(method, path.format("x"), None if method == "GET" else {})
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_replay_to_another_webhook_under_new_ids(mine: Api) -> None:
    one, two = rows.endpoint(), rows.endpoint()
    original = event()
    Event.objects.update(body=b'{"id":"%b","data":{}}' % original.public_id.encode())
    body = {"event_ids": [original.public_id], "to": two.public_id, "webhook_id": "new"}
    response = mine.post(f"/webhooks/{one.public_id}/replay", body)
    assert (response.status_code, response.json()) == (202, {"queued": 1})
    job = Delivery.objects.get()
    assert (job.endpoint_id, job.event.replay_of) == (two.pk, original.pk)
    request_id = response["Request-Id"]
    assert f'"request_id":"{request_id}"'.encode() in bytes(job.event.body)
    listed = [each["id"] for each in mine.get("/events").json()["data"]]
    assert listed == [original.public_id]


def test_replay_refuses_other_webhooks_and_ids(mine: Api) -> None:
    endpoint, body = rows.endpoint(), {"event_ids": [event().public_id]}
    path = f"/webhooks/{endpoint.public_id}/replay"
    response = mine.post(path, {**body, "to": rows.endpoint("b").public_id})
    assert (response.status_code, response.json()["code"]) == (404, "webhook_not_found")
    assert list(errors(mine.post(path, {**body, "webhook_id": "other"}))) == ["webhook_id"]
    EndpointState.objects.update(breaker="open")
    Endpoint.objects.update(policy="exponential")
    response = mine.post(path, body)
    assert (response.status_code, response.json()["code"]) == (409, "breaker_open")


@pytest.mark.parametrize(("start", "queued"), [("earliest", 2), ("latest", 0), (None, 0)])
def test_a_new_webhook_gets_what_is_kept(mine: Api, start: str | None, queued: int) -> None:
    event(), event(20 * DAY), event(31 * DAY), event(type="invoice.sent")
    body = {"url": "https://x.hooks.test/in", "events": ["order.*"], **({"from": start} if start else {})}
    response = mine.post("/webhooks", body)
    assert response.status_code == 201
    jobs = mine.get("/jobs").json()["data"]
    assert [job["webhook_id"] for job in jobs] == [response.json()["id"]] * bool(queued)
    run_jobs()
    assert Delivery.objects.filter(state="pending").count() == queued


def test_a_start_that_is_none(mine: Api) -> None:
    body = {"url": "https://x.hooks.test/in", "events": ["order.*"]}
    assert list(errors(mine.post("/webhooks", {**body, "from": "yesterday"}))) == ["from"]
    made = mine.post("/webhooks", body).json()
    assert list(errors(mine.patch(f"/webhooks/{made['id']}", {"from": "earliest"}))) == ["from"]
