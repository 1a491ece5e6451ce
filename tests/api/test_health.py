"""Status and health of webhooks: what the answers hold, for whom, and what is no webhook's id."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.core.envelope import timestamp
from webhooks_app.models import EndpointState

pytestmark = pytest.mark.django_db

AT = timezone.now() - timedelta(minutes=10)
SOON = timezone.now() + timedelta(days=1)
AS_NEW = {
    "enabled": True,
    "disabled_reason": None,
    "disabled_at": None,
    "paused": False,
    "breaker": {
        "state": "closed",
        "since": None,
        "reason": None,
        "next_probe_at": None,
        "successes": 0,
    },
    "consecutive_failures": 0,
    "failing_since": None,
    "disable_progress": 0.0,
    "warnings": 0,
    "health_warning": None,
    "last_success_at": None,
    "last_failure_at": None,
    "latency_ms": None,
    "window": 4,
    "hold_until": None,
}
FIGURES = {
    "backlog_seconds": 0.0,
    "success_rate": None,
    "latency": {"p50_ms": None, "p95_ms": None, "p99_ms": None},
    "recent_errors": [],
    "sample": {"attempts": 0, "since": None},
}


def test_the_health_of_a_new_webhook(mine: Api) -> None:
    row = rows.endpoint(description="books")
    body = mine.get(f"/webhooks/{row.public_id}/health").json()
    assert body == {"id": row.public_id, "name": "books", **AS_NEW, **FIGURES}


@pytest.mark.parametrize(("most", "shown"), [(1, 1), (3, 3), (7, 7), (8, 7)])
def test_the_window_is_no_wider_than_the_webhooks_own_limit(mine: Api, most: int, shown: int) -> None:
    row = rows.endpoint(max_in_flight=most)
    EndpointState.objects.update(window=7)
    assert mine.get(f"/webhooks/{row.public_id}/health").json()["window"] == shown
    assert mine.get("/webhooks/health").json()["data"][0]["window"] == shown


def test_the_health_of_one_in_trouble(mine: Api) -> None:
    row = rows.endpoint(policy="strict")
    EndpointState.objects.update(
        breaker="open",
        breaker_at=AT,
        breaker_error="timeout",
        probe_at=SOON,
        consecutive_failures=12,
        first_failure_at=AT,
        failing_from=AT,
        last_failure_at=AT,
        last_success_at=AT,
        warnings=1,
        health_warning="redirect",
        latency_ms=480,
        window=1,
    )
    job = rows.delivery(row, due_at=AT)
    rows.attempt(row, job, created_at=AT)
    rows.attempt(row, job, number=2, created_at=AT, status="failed", error="timeout", duration_ms=15_000)
    rows.attempt(row, created_at=AT, status="failed", error="dns", event_type="webhook.test")
    body = mine.get(f"/webhooks/{row.public_id}/health").json()
    assert body["breaker"] == {
        "state": "open",
        "since": timestamp(AT),
        "reason": "timeout",
        "next_probe_at": timestamp(SOON),
        "successes": 0,
    }
    assert (body["consecutive_failures"], body["failing_since"]) == (12, timestamp(AT))
    assert (body["warnings"], body["health_warning"], body["window"]) == (1, "redirect", 1)
    assert (body["success_rate"], body["sample"]["attempts"]) == (0.5, 2)
    assert body["latency"] == {"p50_ms": 12, "p95_ms": 15_000, "p99_ms": 15_000}
    assert body["recent_errors"] == [{"code": "timeout", "count": 1, "last_at": timestamp(AT)}]
    assert 600 <= body["backlog_seconds"] < 86_400


def test_a_policy_that_never_disables_has_no_progress_to_it(mine: Api) -> None:
    row = rows.endpoint(policy="quick")
    assert mine.get(f"/webhooks/{row.public_id}/health").json()["disable_progress"] is None


def test_the_status(mine: Api) -> None:
    row = rows.endpoint(description="books", ordering="fifo")
    EndpointState.objects.update(
        owner="node-1",
        owner_until=SOON,
        delivered=9,
        retried=3,
        failed=1,
        dead_lettered=1,
        last_success_at=AT,
        last_failure_at=AT,
        last_error="status_5xx",
    )
    rows.delivery(row, due_at=AT, lease_token=rows.uuid.uuid4(), lease_until=SOON)
    rows.delivery(row, due_at=SOON)
    body = mine.get(f"/webhooks/{row.public_id}/status").json()
    assert 600 <= body["lag"].pop("seconds") < 86_400
    assert body == {
        "id": row.public_id,
        "name": "books",
        "ordering": "fifo",
        "delivering": True,
        "owner": "node-1",
        "delivered": 9,
        "retried": 3,
        "failed": 1,
        "dead_lettered": 1,
        "last_delivery_at": timestamp(AT),
        "last_error": {"at": timestamp(AT), "code": "status_5xx"},
        "lag": {"deliveries": 2, "more": False},
    }


def test_the_status_of_one_that_rests(mine: Api) -> None:
    row = rows.endpoint()
    EndpointState.objects.update(owner="node-1", owner_until=AT)
    body = mine.get(f"/webhooks/{row.public_id}/status").json()
    assert (body["delivering"], body["owner"], body["last_error"]) == (False, None, None)
    assert body["lag"] == {"deliveries": 0, "more": False, "seconds": 0.0}


def test_the_health_of_all(mine: Api) -> None:
    made = [rows.endpoint(description=str(number)) for number in range(3)]
    rows.endpoint("b")
    body = mine.get("/webhooks/health").json()
    assert body["data"] == [{"id": row.public_id, "name": row.description, **AS_NEW} for row in made[::-1]]
    assert body["next_cursor"] is None


def test_the_health_of_all_in_pages(mine: Api) -> None:
    made = [rows.endpoint().public_id for _ in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        body = mine.get("/webhooks/health", query).json()
        seen += [row["id"] for row in body["data"]]
        if body["next_cursor"] is None:
            break
        query["cursor"] = body["next_cursor"]
    assert seen == made[::-1]


def test_a_cursor_of_the_webhooks_is_none_of_their_health(mine: Api) -> None:
    for _ in range(2):
        rows.endpoint()
    cursor = mine.get("/webhooks", {"limit": 1}).json()["next_cursor"]
    assert "cursor" in errors(mine.get("/webhooks/health", {"limit": 1, "cursor": cursor}))


@pytest.mark.parametrize(
    ("scope", "theirs"),
    [
        ("tenant:a", {"a"}),
        ("tenant:d", set()),
        ("partner:p", {"a", "b"}),
        ("partner:q", {"c"}),
        ("platform", {"a", "b", "c"}),
    ],
)
def test_who_sees_whose(api: Callable[..., Api], scope: str, theirs: set[str]) -> None:
    made = {name: rows.endpoint(name).public_id for name in ("a", "b", "c")}
    seen = {row["id"] for row in api(scope).get("/webhooks/health").json()["data"]}
    assert seen == {made[name] for name in theirs}


def test_those_of_one_tenant(api: Callable[..., Api]) -> None:
    made = {name: rows.endpoint(name).public_id for name in ("a", "b")}
    body = api("partner:p").get("/webhooks/health", {"tenant_id": "b"}).json()
    assert [row["id"] for row in body["data"]] == [made["b"]]


def test_reading_is_enough_and_needed(api: Callable[..., Api]) -> None:
    row = rows.endpoint()
    paths = ["/webhooks/health", f"/webhooks/{row.public_id}/health", f"/webhooks/{row.public_id}/status"]
    reader, writer = api(permissions=["webhooks:read"]), api(permissions=["events:write"])
    assert [reader.get(path).status_code for path in paths] == [200] * 3
    assert [writer.get(path).status_code for path in paths] == [403] * 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_health_is_no_webhook(mine: Api, method: str) -> None:
    response = mine.send(method, "/webhooks/health", {})
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")


def test_they_move_nothing(mine: Api) -> None:
    row = rows.endpoint()
    rows.delivery(row, due_at=AT)
    before = rows.snapshot()
    for path in (
        "/webhooks/health",
        f"/webhooks/{row.public_id}/health",
        f"/webhooks/{row.public_id}/status",
    ):
        mine.get(path)
    assert rows.snapshot() == before


def test_they_cost_the_same_for_one_webhook_and_for_many(
    mine: Api, django_assert_max_num_queries: Any
) -> None:
    rows.endpoint()
    mine.get("/webhooks/health")
    with django_assert_max_num_queries(6) as few:
        mine.get("/webhooks/health")
    for _ in range(9):
        rows.endpoint()
    with django_assert_max_num_queries(6) as many:
        mine.get("/webhooks/health")
    assert len(few) == len(many)
