"""Pages of long lists: short ones where filters leave little, cursors that age, orders that indexes have."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api, errors
from tests.api.test_lists import walk
from webhooks_app.api import delivery_pages, pagination
from webhooks_app.api.cursors import Listing, read_cursor, write_cursor
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.django_db

LATER = rows.NOW + timedelta(hours=1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let a page look at four rows at most."""
    monkeypatch.setattr(pagination, "LOOKED_AT", 4)
    return 4


def ids(pages: list[list[str]]) -> list[str]:
    return [row for page in pages for row in page]


def test_a_filter_may_leave_a_page_short_but_nothing_out(mine: Api, few: int) -> None:
    endpoint = rows.endpoint()
    made = [rows.delivery(endpoint, last_error="timeout" if n % 7 == 0 else "") for n in range(15)]
    path = f"/webhooks/{endpoint.public_id}/deliveries"
    pages = walk(mine, path, error="timeout", limit=2)
    assert ids(pages) == [each.public_id for each in made[::-1] if each.last_error]
    assert [len(page) for page in pages] == [1, 1, 1, 0]
    assert ids(walk(mine, path, limit=2)) == [each.public_id for each in made[::-1]]


def test_a_type_of_events_is_looked_for_in_the_events_of_the_page(mine: Api, few: int) -> None:
    endpoint, other = rows.endpoint(), rows.endpoint()
    events = [rows.event(type="order.paid" if n % 6 == 0 else "order.sent") for n in range(15)]
    made = [rows.delivery(endpoint, event) for event in events]
    theirs = [rows.delivery(other, event) for event in events]
    paid, theirs_paid = ([each.public_id for each in group[::-6][:3]] for group in (made[:13], theirs[:13]))
    pages = walk(mine, f"/webhooks/{endpoint.public_id}/deliveries", event_type="order.paid", limit=1)
    assert ids(pages) == paid
    both = [each for pair in zip(theirs_paid, paid, strict=True) for each in pair]
    assert ids(walk(mine, "/deliveries", event_type="order.paid", limit=1)) == both
    assert ids(walk(mine, "/deliveries", event_type="nobody.sends")) == []


def test_dead_ones_are_looked_at_alone(mine: Api, few: int) -> None:
    endpoint = rows.endpoint()
    state = {0: "exhausted", 9: "expired"}
    made = [rows.delivery(endpoint, state=state.get(n, "delivered")) for n in range(10)]
    path = f"/webhooks/{endpoint.public_id}/deliveries"
    dead = [made[9].public_id, made[0].public_id]
    assert walk(mine, path, status="dead") == [dead]
    assert walk(mine, path, state="exhausted") == [dead[1:]]
    assert walk(mine, "/deliveries", status="dead") == [dead]


def test_statuses_are_those_of_a_replay(mine: Api) -> None:
    endpoint = rows.endpoint()
    fields: dict[str, dict[str, Any]] = {
        "dead": {"state": "exhausted"},
        "failed": {"attempts": 1, "last_error": "timeout"},
        "succeeded": {"state": "delivered", "first_delivered_at": rows.NOW},
        "": {},
    }
    made = {name: rows.delivery(endpoint, **values).public_id for name, values in fields.items()}
    for name in ("dead", "failed", "succeeded"):
        assert walk(mine, "/deliveries", status=name) == [[made[name]]]


@pytest.mark.parametrize("merged", [200, 1])
@pytest.mark.parametrize("looked_at", [10_000, 6])
def test_deliveries_of_all_webhooks_come_once_each(
    mine: Api, monkeypatch: pytest.MonkeyPatch, merged: int, looked_at: int
) -> None:
    monkeypatch.setattr(delivery_pages, "MERGED", merged)
    monkeypatch.setattr(pagination, "LOOKED_AT", looked_at)
    owners = [rows.endpoint(), rows.endpoint(), rows.endpoint()]
    foreign = rows.endpoint("b")
    made = []
    for n in range(12):
        about = rows.event()
        chosen = owners[:1] if n % 3 == 0 else owners
        for each in [*chosen, foreign]:
            delivery = rows.delivery(each, about, last_error="reset" if n == 2 else "")
            made += [(about.pk, delivery.pk, delivery.public_id, each.pk, n)]
    expected = [row for row in sorted(made, reverse=True) if row[3] != foreign.pk]
    assert ids(walk(mine, "/deliveries", limit=5)) == [row[2] for row in expected]
    if looked_at > 7:
        assert [len(page) for page in walk(mine, "/deliveries", limit=7)] == [7, 7, 7, 7]
    failed = [row[2] for row in expected if row[4] == 2]
    assert ids(walk(mine, "/deliveries", limit=2, error="reset")) == failed
    ours = [row[2] for row in expected if row[3] == owners[1].pk]
    assert ids(walk(mine, "/deliveries", limit=2, webhook_id=owners[1].public_id)) == ours


def test_deliveries_of_nobody(api: Callable[..., Api]) -> None:
    assert walk(api("tenant:d"), "/deliveries") == walk(api("tenant:d"), "/deliveries", status="dead") == [[]]


def test_a_delivery_of_all_says_whose_it_is(api: Callable[..., Api]) -> None:
    first, second = rows.endpoint("a"), rows.endpoint("c")
    made = [rows.delivery(each) for each in (first, second)]
    shown = api("platform").get("/deliveries").json()["data"]
    assert [row["webhook_id"] for row in shown] == [second.public_id, first.public_id]
    assert walk(api("platform"), "/deliveries", tenant_id="a") == [[made[0].public_id]]
    assert walk(api("partner:p"), "/deliveries") == [[made[0].public_id]]
    assert api("platform").get(f"/deliveries/{made[1].public_id}").json() == shown[0]


def test_events_of_one_tenant_come_as_they_occurred(api: Callable[..., Api], few: int) -> None:
    late = rows.event(occurred_at=LATER, partner_id="p")
    early = [rows.event(partner_id="p", type="x.y" if n == 0 else "order.paid") for n in range(6)]
    by_time = [late.public_id, *(each.public_id for each in early[::-1])]
    for caller in (api(), api("partner:p")):
        assert ids(walk(caller, "/events", limit=2)) == by_time
        assert walk(caller, "/events", type="x.y") == [[], [early[0].public_id]]
        assert walk(caller, "/events", since=LATER.isoformat()) == [[late.public_id]]
        assert ids(walk(caller, "/events", until=LATER.isoformat())) == by_time[1:]
    assert ids(walk(api("platform"), "/events", limit=2)) == [*by_time[1:], late.public_id]
    assert ids(walk(api("platform"), "/events", tenant_id="a", limit=2)) == by_time


def test_events_of_a_rare_environment(api: Callable[..., Api], few: int) -> None:
    made = rows.event(environment="test")
    for _ in range(9):
        rows.event()
    assert walk(api(environment="test"), "/events") == [[made.public_id]]


def test_filters_of_events(mine: Api) -> None:
    one = rows.event(owner_kind="order", owner_id="1", identity_id="u1").public_id
    two = rows.event(owner_kind="order", owner_id="2").public_id
    rows.event(owner_kind="cart", owner_id="1")
    assert walk(mine, "/events", owner_kind="order") == [[two, one]]
    assert walk(mine, "/events", owner_kind="order", owner_id="1") == [[one]]
    assert walk(mine, "/events", identity_id="u1") == [[one]]


def test_filters_of_attempts(mine: Api) -> None:
    endpoint = rows.endpoint()
    good = rows.attempt(endpoint, rows.delivery(endpoint), created_at=rows.NOW).public_id
    bad = rows.attempt(endpoint, status="failed", error="status_5xx", http_status=502).public_id
    path = f"/webhooks/{endpoint.public_id}/attempts"
    assert walk(mine, path, trigger="schedule") == [[good]]
    assert walk(mine, path, error="status_5xx") == walk(mine, path, http_status=502) == [[bad]]


def test_attempts_of_a_span(mine: Api) -> None:
    endpoint, path = rows.endpoint(), "/webhooks/{}/attempts"
    moments = [rows.NOW + timedelta(minutes=n) for n in range(4)]
    made = [rows.attempt_at(endpoint, moment).public_id for moment in moments]
    path = path.format(endpoint.public_id)
    assert walk(mine, path, since=moments[1].isoformat(), until=moments[3].isoformat()) == [made[2:0:-1]]
    assert walk(mine, path, since="0001-01-01T00:00:00Z") == [made[::-1]]
    assert walk(mine, path, until="9999-12-31T23:59:59Z") == [made[::-1]]
    assert (
        walk(mine, path, since="9999-12-31T23:59:59Z")
        == walk(mine, path, until="0001-01-01T00:00:01Z")
        == [[]]
    )


def test_one_attempt(mine: Api) -> None:
    endpoint = rows.endpoint()
    made = rows.attempt(endpoint, rows.delivery(endpoint))
    shown = mine.get(f"/attempts/{made.public_id}").json()
    assert shown == mine.get(f"/webhooks/{endpoint.public_id}/attempts").json()["data"][0]
    assert shown["webhook_id"] == endpoint.public_id


def test_a_cursor_is_good_for_a_day(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        rows.endpoint()
    cursor = mine.get("/webhooks", {"limit": 1}).json()["next_cursor"]
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(hours=23, minutes=59))
    assert mine.get("/webhooks", {"limit": 1, "cursor": cursor}).status_code == 200
    monkeypatch.setattr(timezone, "now", lambda: now + timedelta(hours=24, minutes=1))
    response = mine.get("/webhooks", {"limit": 1, "cursor": cursor})
    assert (response.status_code, response.json()["code"]) == (410, "cursor_expired")
    # That it is somebody else's says more, and its age nothing.
    assert list(errors(mine.get("/webhooks", {"limit": 1, "cursor": cursor, "tenant_id": "a"}))) == ["cursor"]


def test_a_cursor_gives_its_key_back() -> None:
    listing = Listing(rows.OPERATOR, "/x", {})
    cursor = write_cursor((5, rows.NOW, "é" * 20), listing, rows.NOW)
    assert read_cursor(cursor, listing, rows.NOW) == [5, rows.NOW.isoformat(), "é" * 20]


def test_the_key_of_a_page_is_compared_as_a_whole() -> None:
    made = [Endpoint(pk=pk, url=url) for pk, url in enumerate("aab0", 1)]
    Endpoint.objects.bulk_create(_dated(made))
    order = sorted(made, key=lambda each: (each.url, each.pk), reverse=True)
    for place, each in enumerate(order):
        key = (each.url, each.pk)
        follow = Endpoint.objects.filter(pagination.below(("url", "pk"), key))
        others = Endpoint.objects.filter(pagination.at_least(("url", "pk"), key))
        assert set(follow) == set(order[place + 1 :])
        assert set(others) == set(order[: place + 1])


def _dated(made: list[Endpoint]) -> list[Endpoint]:
    for each in made:
        each.public_id = f"whk_{each.pk}"
        each.created_at = each.updated_at = rows.NOW
    return made


def test_the_audit(api: Callable[..., Api]) -> None:
    mine, endpoint = api(), rows.endpoint()
    mine.post(f"/webhooks/{endpoint.public_id}/pause")
    shown = mine.get("/audit", {"target_id": endpoint.public_id}).json()["data"]
    assert [row["action"] for row in shown] == ["webhook.paused", "webhook.registered"]
    assert shown[0]["actor"]["kind"] == "key"
    assert shown[0]["actor"]["id"].startswith("key_")
    assert shown[1]["actor"] == {"kind": "command", "id": None}
    assert shown[0]["target"] == {"type": "webhook", "id": endpoint.public_id}
    assert walk(mine, "/audit", action="webhook.paused") == [[shown[0]["id"]]]
    assert walk(mine, "/audit", since="2999-01-01T00:00:00Z") == [[]]
    # A platform key is no operator of this installation.
    assert api("platform").get("/audit").json()["data"][-1]["actor"]["id"] is None


def test_jobs(mine: Api) -> None:
    endpoint = rows.endpoint()
    made = rows.job(endpoint)
    failed = rows.job(endpoint, kind="bulk_retry", state="failed", error="why", total=None)
    assert mine.get(f"/jobs/{made.public_id}").json() == {
        "id": made.public_id,
        "kind": "recover",
        "state": "queued",
        "webhook_id": endpoint.public_id,
        "total": 7,
        "done": 0,
        "skipped": 0,
        "created_at": "2026-10-01T12:00:00.123Z",
        "started_at": None,
        "finished_at": None,
        "error": None,
    }
    assert mine.get(f"/jobs/{failed.public_id}").json()["error"] == "why"
    for query in ({"kind": "bulk_retry"}, {"state": "failed"}):
        assert walk(mine, "/jobs", **query) == [[failed.public_id]]
    assert walk(mine, "/jobs", webhook_id=endpoint.public_id) == [[failed.public_id, made.public_id]]


def test_a_job_is_cancelled(mine: Api) -> None:
    endpoint = rows.endpoint()
    made, ended = rows.job(endpoint), rows.job(endpoint, state="succeeded")
    for _ in range(2):
        assert mine.post(f"/jobs/{made.public_id}/cancel").json()["state"] == "cancelled"
    assert mine.post(f"/jobs/{ended.public_id}/cancel").json()["code"] == "job_ended"


@pytest.mark.parametrize("scope", ["tenant:a", "partner:p"])
def test_a_key_learns_nothing_of_the_events_of_the_other_environment(
    api: Callable[..., Api], few: int, scope: str
) -> None:
    """Neither that there are any, by a page that stops early, nor when they occurred, by its cursor."""
    for n in range(9):
        rows.event("a", partner_id="p", occurred_at=rows.NOW + timedelta(seconds=n))
    test = api(scope, environment="test")
    for query in ({}, {"tenant_id": "a"}, {"since": rows.NOW.isoformat()}):
        assert test.get("/events", query).json() == {"data": [], "next_cursor": None}
    mine = [rows.event("a", partner_id="p", environment="test") for _ in range(2)]
    assert walk(test, "/events", type="order.paid") == [[each.public_id for each in mine[::-1]]]
    assert len(ids(walk(api(scope), "/events"))) == 9


def test_a_partner_learns_nothing_of_the_events_of_others(api: Callable[..., Api], few: int) -> None:
    """Not even that there are any, by a page that stops early."""
    for _ in range(9):
        rows.event("foreign")
    mine = [rows.event("a", partner_id="p") for _ in range(2)]
    partner = api("partner:p")
    for tenant in ("foreign", "nobody"):
        assert partner.get(f"/events?tenant_id={tenant}").json() == {"data": [], "next_cursor": None}
    assert ids(walk(partner, "/events", tenant_id="a")) == [each.public_id for each in mine[::-1]]
