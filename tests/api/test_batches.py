"""Several events at once: all or none, and errors that name the one."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.core.ids import tenant_event_id
from webhooks_app.models import OutboxEntry, Tenant

pytestmark = pytest.mark.django_db
GOOD = {"type": "order.paid", "data": {"n": 1}}


def test_a_batch_is_recorded_in_its_order(mine: Api) -> None:
    owner = {"kind": "order", "id": "7"}
    events = [{**GOOD, "owner": owner, "event_id": f"e{n}"} for n in (1, 2, 1)]
    response = mine.post("/events/batch", {"events": events})
    assert response.status_code == 202
    ids = [tenant_event_id("a", f"e{n}") for n in (1, 2, 1)]
    assert response.json() == {
        "data": [
            {"id": ids[0], "sequence": 1, "created": True},
            {"id": ids[1], "sequence": 2, "created": True},
            {"id": ids[0], "sequence": 1, "created": False},
        ]
    }
    assert OutboxEntry.objects.count() == 2


def test_500_are_taken_and_501_are_not(mine: Api) -> None:
    assert len(mine.post("/events/batch", {"events": [GOOD] * 500}).json()["data"]) == 500
    assert list(errors(mine.post("/events/batch", {"events": [GOOD] * 501}))) == ["events"]
    assert list(errors(mine.post("/events/batch", {"events": []}))) == ["events"]
    assert OutboxEntry.objects.count() == 500


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"type": "x y"}, "events/2/type"),
        ({"type": "webhook.x"}, "events/2/type"),
        ({"type": 5}, "events/2/type"),
        ({"data": {"a": {"b": "\ud800"}}}, "events/2/data/a/b"),
        ({"nope": 1}, "events/2/nope"),
        ({"event_id": "a b"}, "events/2/event_id"),
        ({"environment": "test"}, "events/2/environment"),
        ({"occurred_at": "2001-01-01T00:00:00Z"}, "events/2/occurred_at"),
        ({"owner": {"kind": "order"}}, "events/2/owner/id"),
        ({"identity_id": ""}, "events/2/identity_id"),
    ],
)
def test_one_bad_event_spoils_all_and_is_named(mine: Api, bad: Any, path: str) -> None:
    before = rows.snapshot()
    response = mine.post("/events/batch", {"events": [GOOD, GOOD, {**GOOD, **bad}]})
    assert response.status_code == 400
    assert list(errors(response)) == [path]
    assert rows.snapshot() == before


def test_a_large_event_is_named(mine: Api, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_BODY_BYTES": 1000}
    response = mine.post("/events/batch", {"events": [GOOD, {**GOOD, "data": {"a": "x" * 1000}}]})
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
    assert [path.partition("/data")[0] for path in errors(response)] == ["events/1"]
    assert not OutboxEntry.objects.exists()


def test_many_tenants_cost_no_more_queries_than_one(api: Callable[..., Api]) -> None:
    partner = api("partner:p")
    Tenant.objects.bulk_create([Tenant(id=f"t{n}", partner_id="p") for n in range(500)])
    cost = []
    # The first request of a key notes that it is used.
    for tenants in (1, 1, 500):
        events = [{**GOOD, "tenant_id": f"t{n % tenants}"} for n in range(500)]
        with CaptureQueriesContext(connection) as queries:
            assert partner.post("/events/batch", {"events": events}).status_code == 202
        cost.append(len(queries))
    assert cost[1] == cost[2] < 20
    assert OutboxEntry.objects.values("tenant_id").distinct().count() == 500


@pytest.mark.parametrize("scope", ["tenant:a", "partner:p"])
def test_somebody_elses_tenant_spoils_all(api: Callable[..., Api], scope: str) -> None:
    mine = {**GOOD, "tenant_id": "a"}
    response = api(scope).post("/events/batch", {"events": [mine, {**GOOD, "tenant_id": "c"}]})
    assert (response.status_code, response.json()["code"]) == (404, "tenant_not_found")
    assert "events/1" in response.json()["detail"]
    assert not OutboxEntry.objects.exists()


def test_an_id_of_the_other_environment_spoils_all(api: Callable[..., Api]) -> None:
    event = {**GOOD, "event_id": "e1"}
    assert api(environment="test").post("/events", event).status_code == 202
    response = api().post("/events/batch", {"events": [GOOD, event]})
    assert (response.status_code, response.json()["code"]) == (409, "event_id_conflict")
    assert "events/1" in response.json()["detail"]
    assert OutboxEntry.objects.count() == 1


def test_a_partner_asks_for_each_tenant_once(
    api: Callable[..., Api], django_assert_max_num_queries: Any
) -> None:
    caller, events = api("partner:p"), [{**GOOD, "tenant_id": "a"}, {**GOOD, "tenant_id": "b"}] * 20
    with django_assert_max_num_queries(8):
        assert len(caller.post("/events/batch", {"events": events}).json()["data"]) == 40


def test_a_batch_may_be_larger_than_an_event(mine: Api) -> None:
    large = {**GOOD, "data": {"a": "x" * 200_000}}
    assert mine.post("/events/batch", {"events": [large] * 20}).status_code == 202
    assert mine.post("/events/batch", b" " * (5 * 1024 * 1024 + 1)).status_code == 413


def test_a_repeated_batch_is_recorded_once(mine: Api) -> None:
    for _ in range(2):
        response = mine.post("/events/batch", {"events": [GOOD] * 3}, HTTP_IDEMPOTENCY_KEY="k")
        assert len(response.json()["data"]) == 3
    assert response["Idempotency-Replayed"] == "true"
    assert OutboxEntry.objects.count() == 3
