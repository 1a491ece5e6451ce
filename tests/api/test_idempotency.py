"""Idempotency-Key: what a repeated request gets, what a different one gets, and what is kept."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import QuerySet
from django.http import HttpResponse
from django.test import Client

from tests.api import rows
from tests.api.client import ROOT, Api, check_problem, errors
from tests.pipeline.driving import committed
from webhooks_app.api import idempotency, stored_answers
from webhooks_app.api.schema import document
from webhooks_app.api.views import webhooks
from webhooks_app.models import ApiKey, Endpoint, EndpointSecret, IdempotencyRecord, OutboxEntry

pytestmark = pytest.mark.django_db
KEY = {"HTTP_IDEMPOTENCY_KEY": "4f7b-1"}
WEBHOOK = {"url": "https://x.hooks.test/in?token=S3CRET-7", "events": ["order.paid"]}
EVENT = {"type": "order.paid", "data": {"a": 1, "b": [1.5, 12345678901234567890, "é"]}}


def replayed(response: HttpResponse) -> bool:
    return response.headers.get("Idempotency-Replayed") == "true"


def age(seconds: float) -> None:
    """Let the only record be so old."""
    record = IdempotencyRecord.objects.get()
    IdempotencyRecord.objects.update(started_at=record.started_at - timedelta(seconds=seconds))


def leave_in_progress() -> None:
    """Let the only record be as a process that died has left it."""
    IdempotencyRecord.objects.update(state="in_progress", status=None, headers={}, body=None)


def test_a_repeated_request_acts_once(mine: Api) -> None:
    first, second = (mine.post("/events", EVENT, **KEY) for _ in range(2))
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.content == second.content
    assert (replayed(first), replayed(second)) == (False, True)
    assert first["Request-Id"] != second["Request-Id"]
    assert OutboxEntry.objects.count() == 1


def test_without_a_key_every_request_acts(mine: Api) -> None:
    assert mine.post("/events", EVENT).json()["id"] != mine.post("/events", EVENT).json()["id"]
    assert not IdempotencyRecord.objects.exists()


def test_a_secret_is_neither_kept_nor_shown_again(mine: Api) -> None:
    first, second = (mine.post("/webhooks", WEBHOOK, **KEY) for _ in range(2))
    secret = first.json()["secret"]
    assert second.status_code == 201
    assert second["Location"] == first["Location"] == f"{ROOT}/webhooks/{first.json()['id']}"
    assert {**first.json(), "secret_replayed": False} == {**second.json(), "secret": secret}
    assert secret.removeprefix("whsec_").encode() not in bytes(IdempotencyRecord.objects.get().body)
    assert Endpoint.objects.count() == 1


def test_nor_is_the_secret_of_a_rotation(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}/rotate-secret"
    first, second = (mine.post(path, {"overlap_hours": 1}, **KEY) for _ in range(2))
    assert second.json()["secret_replayed"] is False
    assert "secret" not in second.json()
    assert first.json()["secret"].encode() not in bytes(IdempotencyRecord.objects.get().body)
    assert EndpointSecret.objects.count() == 2


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_verbs_have_it_too(mine: Api, verb: str) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}/{verb}"
    first, second = (mine.post(path, None, **KEY) for _ in range(2))
    assert first.content == second.content
    assert replayed(second)


def test_the_same_json_in_another_spelling_is_the_same_request(mine: Api) -> None:
    mine.post("/events", b'{"type": "order.paid", "data": {"a": 1, "b": "\\u00e9"}}', **KEY)
    again = mine.post("/events", '{"data":{"b":"é","a":1},"type":"order.paid"}'.encode(), **KEY)
    assert replayed(again)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/events", {**EVENT, "data": {"a": 2}}),
        ("/events", {**EVENT, "data": {"a": 1.0, "b": EVENT["data"]["b"]}}),
        ("/events", {**EVENT, "nope": 1}),
        ("/events?x=1", EVENT),
        ("/webhooks", EVENT),
        ("/webhooks", WEBHOOK),
    ],
)
def test_another_request_with_the_key_is_refused(mine: Api, path: str, body: Any) -> None:
    mine.post("/events", EVENT, **KEY)
    before = rows.snapshot()
    response = mine.post(path, body, **KEY)
    # A query that is refused is refused before the key is looked at.
    expected = "invalid_request" if "?" in path else "idempotency_conflict"
    assert response.json()["code"] == expected
    assert response.json()["retryable"] is False
    assert rows.snapshot() == before


@pytest.mark.parametrize("key", ["", " ", "é", "a\x7f", "x" * 256, "a\tb", " x", "x "])
def test_what_is_no_key(mine: Api, key: str) -> None:
    before = rows.snapshot()
    response = mine.post("/events", EVENT, HTTP_IDEMPOTENCY_KEY=key)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_idempotency_key")
    assert list(errors(response)) == ["Idempotency-Key"]
    assert rows.snapshot() == before


@pytest.mark.parametrize("key", ["x", "x" * 255, '"8e03978e-40d5"', "a b", "~!"])
def test_what_is_a_key(mine: Api, key: str) -> None:
    first, second = (mine.post("/events", EVENT, HTTP_IDEMPOTENCY_KEY=key) for _ in range(2))
    assert first.status_code == 202
    assert replayed(second)


def test_methods_that_may_be_repeated_anyway_need_none(mine: Api) -> None:
    endpoint = rows.endpoint()
    path = f"/webhooks/{endpoint.public_id}"
    for _ in range(2):
        assert mine.patch(path, {"description": "x"}, HTTP_IDEMPOTENCY_KEY="\t").status_code == 200
        assert mine.get(path, HTTP_IDEMPOTENCY_KEY="\t").status_code == 200
    assert mine.delete(path, HTTP_IDEMPOTENCY_KEY="\t").status_code == 204
    assert not IdempotencyRecord.objects.exists()


def test_callers_share_no_keys(api: Callable[..., Api]) -> None:
    callers = [api(), api(), api("partner:p"), api("platform")]
    ids = {each.post("/events", {**EVENT, "tenant_id": "a"}, **KEY).json()["id"] for each in callers}
    assert len(ids) == IdempotencyRecord.objects.count() == 4


def test_a_key_that_lost_its_permission_gets_nothing_again(mine: Api) -> None:
    mine.post("/webhooks", WEBHOOK, **KEY)
    ApiKey.objects.update(permissions=[])
    assert mine.post("/webhooks", WEBHOOK, **KEY).status_code == 403


def test_staff_sessions_have_it_too() -> None:
    user = get_user_model().objects.create_superuser("root")
    client = Client()
    client.force_login(user)
    staff = Api(client=client)
    first, second = (staff.post("/webhooks", WEBHOOK, **KEY) for _ in range(2))
    assert first.status_code == 201
    assert replayed(second)
    assert Endpoint.objects.count() == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/webhooks", {}, 400),
        ("/webhooks", {**WEBHOOK, "tenant_id": "b"}, 404),
        ("/webhooks/whk_x/pause", None, 404),
        ("/webhooks/%00/pause", None, 404),
        (f"/webhooks/{'x' * 600}/pause", None, 404),
        ("/events", {**EVENT, "type": "webhook.x"}, 400),
    ],
)
def test_a_request_that_changed_nothing_may_be_corrected(
    mine: Api, path: str, body: Any, status: int
) -> None:
    assert mine.post(path, body, **KEY).status_code == status
    assert not IdempotencyRecord.objects.exists()
    assert mine.post("/events", EVENT, **KEY).status_code == 202


def test_a_body_that_is_no_json_takes_no_key(mine: Api) -> None:
    for body in (b"{", b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900):
        assert mine.post("/events", body, **KEY).status_code == 400
        assert not IdempotencyRecord.objects.exists()


def test_a_request_that_is_being_carried_out(mine: Api) -> None:
    mine.post("/events", EVENT, **KEY)
    leave_in_progress()
    age(59)
    response = mine.post("/events", EVENT, **KEY)
    assert (response.status_code, response.json()["code"]) == (409, "request_in_progress")
    assert response.json()["retryable"] is True
    assert response["Retry-After"] == "1"
    assert OutboxEntry.objects.count() == 1


def test_one_that_is_stuck_is_taken_over(mine: Api) -> None:
    first = mine.post("/events", EVENT, **KEY)
    leave_in_progress()
    age(91)
    assert mine.post("/events", {**EVENT, "subject": "x"}, **KEY).json()["code"] == "idempotency_conflict"
    second, third = (mine.post("/events", EVENT, **KEY) for _ in range(2))
    assert (replayed(second), replayed(third)) == (False, True)
    assert first.json()["id"] != second.json()["id"] == third.json()["id"]


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, 60),
        ({"POLICY_BOUNDS": {"max_total_timeout": 300}}, 300),
        # What no override may have, a preset has.
        ({"POLICY_BOUNDS": {"max_total_timeout": 1}}, 20),
        (
            {
                "POLICIES": {"slow": {"base": "standard", "total_timeout": 45}},
                "POLICY_BOUNDS": {"max_total_timeout": 45},
            },
            45,
        ),
    ],
)
def test_nothing_is_taken_over_while_it_may_still_wait_for_a_receiver(
    mine: Api, settings: Any, values: dict[str, Any], seconds: int
) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, **values}
    mine.post("/events", EVENT, **KEY)
    leave_in_progress()
    age(seconds + 29)
    assert mine.post("/events", EVENT, **KEY).json()["code"] == "request_in_progress"
    age(1)
    assert mine.post("/events", EVENT, **KEY).status_code == 202
    assert OutboxEntry.objects.count() == 2


def test_whoever_was_taken_over_records_nothing(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest = webhooks.register_endpoint

    def slow(*args: Any, **options: Any) -> Any:
        age(91)
        monkeypatch.setattr(webhooks, "register_endpoint", ingest)
        assert mine.post("/webhooks", WEBHOOK, **KEY).status_code == 201
        return ingest(*args, **options)

    monkeypatch.setattr(webhooks, "register_endpoint", slow)
    first = mine.post("/webhooks", WEBHOOK, **KEY).json()["id"]
    second = mine.post("/webhooks", WEBHOOK, **KEY)
    assert replayed(second)
    assert second.json()["id"] != first


def test_one_of_two_takes_a_stuck_key_over(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    mine.post("/events", EVENT, **KEY)
    leave_in_progress()
    age(91)
    update = QuerySet.update

    def beaten(rows_: Any, **columns: Any) -> int:
        if rows_.model is IdempotencyRecord and columns.get("state") == "in_progress":
            update(IdempotencyRecord.objects.all(), started_at=columns["started_at"] - timedelta(seconds=1))
        return update(rows_, **columns)

    monkeypatch.setattr(QuerySet, "update", beaten)
    assert mine.post("/events", EVENT, **KEY).json()["code"] == "request_in_progress"
    assert OutboxEntry.objects.count() == 1


def test_a_key_is_kept_for_30_days(mine: Api) -> None:
    mine.post("/events", EVENT, **KEY)
    record = IdempotencyRecord.objects.get()
    assert record.expires_at - record.started_at == timedelta(days=30)
    IdempotencyRecord.objects.update(expires_at=record.started_at)
    other = mine.post("/events", {**EVENT, "subject": "new"}, **KEY)
    assert other.status_code == 202
    assert not replayed(other)
    assert IdempotencyRecord.objects.get().fingerprint != record.fingerprint


def test_a_large_answer_is_read_again_and_not_kept(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_answers, "MAX_STORED", 300)
    first = mine.post("/webhooks", WEBHOOK, **KEY)
    assert IdempotencyRecord.objects.get().body is None
    path = f"/webhooks/{first.json()['id']}"
    assert mine.patch(path, {"description": "changed"}).status_code == 200
    second = mine.post("/webhooks", WEBHOOK, **KEY)
    assert (second.status_code, second["Content-Location"]) == (201, f"{ROOT}{path}")
    assert replayed(second)
    assert second.json() == {**mine.get(path).json(), "secret_replayed": False}
    mine.delete(path)
    gone = mine.post("/webhooks", WEBHOOK, **KEY)
    assert (gone.status_code, gone.json()["code"]) == (404, "webhook_not_found")
    assert replayed(gone)


def test_a_real_large_answer(mine: Api) -> None:
    large = {**WEBHOOK, "identity_ids": [f"{n:0128}" for n in range(600)]}
    assert len(mine.post("/webhooks", large, **KEY).content) > stored_answers.MAX_STORED
    assert IdempotencyRecord.objects.get().body is None
    assert replayed(mine.post("/webhooks", large, **KEY))


def test_what_has_no_id_to_read_it_by_is_kept_whatever_its_size(
    mine: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_answers, "MAX_STORED", 0)
    path = f"/webhooks/{rows.endpoint().public_id}/replay"
    first, second = (mine.post(path, {"event_ids": ["evt_1"]}, **KEY) for _ in range(2))
    assert first.content == second.content
    assert replayed(second)


@committed
def test_a_failure_after_a_change_is_not_done_again(api: Callable[..., Api], monkeypatch: Any) -> None:
    mine = api()

    def fail(*_: object, **__: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(webhooks, "reverse", fail)
    first = mine.post("/webhooks", WEBHOOK, **KEY)
    assert (first.status_code, first.json()["retryable"]) == (503, True)
    assert Endpoint.objects.count() == 1
    monkeypatch.undo()
    second = mine.post("/webhooks", WEBHOOK, **KEY)
    check_problem(second)
    assert (second.status_code, second.json()["retryable"]) == (503, False)
    assert replayed(second)
    assert Endpoint.objects.count() == 1


@committed
def test_a_failure_before_any_change_is(api: Callable[..., Api], monkeypatch: Any) -> None:
    mine = api()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("S3CRET")

    # The endpoint and its state are written by then, and rolled back.
    monkeypatch.setattr("webhooks_app.actions.audit.record", fail)
    assert mine.post("/webhooks", WEBHOOK, **KEY).status_code == 500
    monkeypatch.undo()
    assert not IdempotencyRecord.objects.exists()
    second = mine.post("/webhooks", WEBHOOK, **KEY)
    assert (second.status_code, replayed(second)) == (201, False)


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    mine: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise DatabaseError("gone")

    monkeypatch.setattr(idempotency, "stored", fail)
    assert mine.post("/events", EVENT, **KEY).status_code == 202
    assert "could not be kept" in caplog.text
    assert IdempotencyRecord.objects.get().state == "in_progress"


@committed
@pytest.mark.pg
def test_a_lost_connection_keeps_no_key(api: Callable[..., Api], monkeypatch: Any) -> None:
    mine = api()

    def lose(*_: object, **__: object) -> None:
        connections["default"].connection.close()
        connections["default"].ensure_connection()
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")

    monkeypatch.setattr(webhooks, "register_endpoint", lose)
    first = mine.post("/webhooks", WEBHOOK, **KEY)
    assert (first.status_code, first.json()["code"]) == (503, "unavailable")
    assert not IdempotencyRecord.objects.exists()
    monkeypatch.undo()
    assert mine.post("/webhooks", WEBHOOK, **KEY).status_code == 201


@committed
@pytest.mark.pg
def test_of_ten_at_once_one_acts(api: Callable[..., Api]) -> None:
    """B141"""
    callers, start = [api()], threading.Barrier(10)

    def call(_: int) -> HttpResponse:
        caller = Api(client=Client(raise_request_exception=False))
        caller.headers = callers[0].headers
        start.wait(10)
        try:
            return caller.post("/webhooks", WEBHOOK, **KEY)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(call, range(10)))
    acted = [each for each in answers if each.status_code == 201 and not replayed(each)]
    others = [each for each in answers if each not in acted]
    assert len(acted) == Endpoint.objects.count() == 1
    for each in others:
        assert replayed(each) or each.json()["code"] == "request_in_progress"
    assert replayed(callers[0].post("/webhooks", WEBHOOK, **KEY))


def test_every_post_is_documented_with_it() -> None:
    for methods in document()["paths"].values():
        for method, operation in methods.items():
            names = {each["name"] for each in operation.get("parameters", []) if each["in"] == "header"}
            assert ("Idempotency-Key" in names) == (method == "post")


@committed
@pytest.mark.pg
def test_a_connection_lost_while_it_commits_leaves_the_key_in_doubt(
    api: Callable[..., Api], monkeypatch: Any
) -> None:
    """The webhook is there, though its caller was told 503: the next request must not make another."""
    mine = api()
    real, commits = BaseDatabaseWrapper._commit, []

    def commit_and_lose(self: Any) -> None:
        real(self)
        commits.append(1)
        if len(commits) == 2:  # the first took the key
            raise OperationalError("the answer to the COMMIT never came")

    monkeypatch.setattr(BaseDatabaseWrapper, "_commit", commit_and_lose)
    first = mine.post("/webhooks", WEBHOOK, **KEY)
    monkeypatch.undo()
    assert (first.status_code, Endpoint.objects.count()) == (503, 1)
    assert mine.post("/webhooks", WEBHOOK, **KEY).json()["code"] == "request_in_progress"
    assert Endpoint.objects.count() == 1
