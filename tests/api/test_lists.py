"""Lists: pages without gaps or doubles, cursors that belong to one list, filters, and how many queries."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.models import Attempt, Delivery, Endpoint, Event

pytestmark = pytest.mark.django_db

Fill = Callable[[Endpoint, int], list[str]]


def webhooks(of: Endpoint, count: int) -> list[str]:
    return [of.public_id] + [rows.endpoint().public_id for _ in range(count - 1)]


def events(of: Endpoint, count: int) -> list[str]:
    return [rows.event().public_id for _ in range(count)]


def deliveries(of: Endpoint, count: int) -> list[str]:
    return [rows.delivery(of).public_id for _ in range(count)]


def attempts(of: Endpoint, count: int) -> list[str]:
    jobs = Delivery.objects.filter(endpoint=of) or [rows.delivery(of)]
    numbers = range(Attempt.objects.count(), Attempt.objects.count() + count)
    made = [rows.attempt(of, jobs[0], number=number) for number in numbers]
    return [each.public_id for each in made]


def jobs(of: Endpoint, count: int) -> list[str]:
    return [rows.job(of).public_id for _ in range(count)]


LISTS: dict[str, tuple[str, Fill]] = {
    "webhooks": ("/webhooks", webhooks),
    "events": ("/events", events),
    "deliveries": ("/webhooks/{id}/deliveries", deliveries),
    "attempts": ("/webhooks/{id}/attempts", attempts),
    "all deliveries": ("/deliveries", deliveries),
    "jobs": ("/jobs", jobs),
}


@pytest.fixture(params=LISTS)
def listed(request: pytest.FixtureRequest, settings: Any, tenants: None) -> tuple[str, Fill, Endpoint]:
    """The path of each list in turn, what fills it, and the endpoint of its path."""
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_ENDPOINTS": 1000}
    path, fill = LISTS[request.param]
    endpoint = rows.endpoint()
    return path.format(id=endpoint.public_id), fill, endpoint


def walk(api: Api, path: str, **query: Any) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        answer = api.get(path, {**query, **({"cursor": cursor} if cursor else {})}).json()
        pages.append([row["id"] for row in answer["data"]])
        cursor = answer["next_cursor"]
        if cursor is None:
            return pages


def test_rows_of_one_transaction_come_once_each(mine: Api, listed: Any) -> None:
    path, fill, endpoint = listed
    with transaction.atomic():
        made = fill(endpoint, 25)
    pages = walk(mine, path, limit=10)
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [row for page in pages for row in page] == made[::-1]
    assert walk(mine, path, limit=25) == [made[::-1]]


def test_rows_that_arrive_meanwhile_move_nothing(mine: Api, listed: Any) -> None:
    path, fill, endpoint = listed
    made = fill(endpoint, 6)
    first = mine.get(path, {"limit": 3}).json()
    fill(endpoint, 3)
    second = mine.get(path, {"limit": 3, "cursor": first["next_cursor"]}).json()
    seen = [row["id"] for row in first["data"] + second["data"]]
    assert seen == made[::-1]


@pytest.mark.parametrize("path", ["/events", "/webhooks/{id}/deliveries", "/webhooks/{id}/attempts"])
def test_an_empty_list(mine: Api, path: str) -> None:
    path = path.format(id=rows.endpoint().public_id)
    assert mine.get(path).json() == {"data": [], "next_cursor": None}


def test_the_default_is_25(mine: Api, listed: Any) -> None:
    path, fill, endpoint = listed
    fill(endpoint, 26)
    assert [len(page) for page in walk(mine, path)] == [25, 1]


@pytest.mark.parametrize(
    "limit",
    ["0", "-1", "101", "1000000000", "10000000000000", "x", "", "1.0", " 5", "+5", "٥", "5\x00", "1e1"],
)
def test_limits_outside_1_to_100(mine: Api, limit: str) -> None:
    assert list(errors(mine.get("/webhooks", {"limit": limit}))) == ["limit"]


@pytest.mark.parametrize("limit", ["1", "100", "007"])
def test_limits_inside(mine: Api, limit: str) -> None:
    assert mine.get("/webhooks", {"limit": limit}).status_code == 200


def test_a_cursor_belongs_to_one_list_of_one_caller(api: Callable[..., Api], settings: Any) -> None:
    mine, endpoint, other = api(), rows.endpoint(), rows.endpoint()
    for each in (endpoint, other):
        deliveries(each, 3)
        attempts(each, 3)
    path = f"/webhooks/{endpoint.public_id}/deliveries"
    cursor = mine.get(path, {"limit": 1, "state": "pending"}).json()["next_cursor"]
    assert mine.get(path, {"limit": 2, "state": "pending", "cursor": cursor}).status_code == 200
    assert mine.get(path, {"cursor": cursor, "state": "pending", "limit": 1}).status_code == 200
    tampered = cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB")
    for caller, where, query in [
        (mine, path, {}),
        (mine, path, {"state": "delivered"}),
        (mine, path, {"state": "pending", "event_type": "order.paid"}),
        (mine, path.replace("deliveries", "attempts"), {}),
        (mine, f"/webhooks/{other.public_id}/deliveries", {"state": "pending"}),
        (mine, "/webhooks", {}),
        (api(), path, {"state": "pending"}),
        (api("platform"), path, {"state": "pending"}),
    ]:
        assert list(errors(caller.get(where, {**query, "cursor": cursor}))) == ["cursor"]
    assert list(errors(mine.get(path, {"state": "pending", "cursor": tampered}))) == ["cursor"]
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another"
    assert mine.get(path, {"state": "pending", "cursor": cursor}).status_code == 400
    settings.SECRET_KEY_FALLBACKS = [old]
    assert mine.get(path, {"state": "pending", "cursor": cursor}).status_code == 200


@pytest.mark.parametrize("cursor", ["", "x", "x.y", "..", "é", "\x00", "W10.abc", "a" * 501, "null"])
def test_what_is_no_cursor(mine: Api, cursor: str) -> None:
    response = mine.get("/webhooks", {"cursor": cursor})
    assert response.status_code == 400
    assert list(errors(response)) == ["cursor"]


@pytest.mark.parametrize(
    "path", ["/webhooks", "/events", "/webhooks/{id}/deliveries", "/webhooks/{id}/attempts"]
)
@pytest.mark.parametrize("name", ["page", "offset", "Limit", "limit[]", "state ", "x" * 300, "a\x00b"])
def test_an_unknown_parameter_is_named(mine: Api, path: str, name: str) -> None:
    path = path.format(id=rows.endpoint().public_id)
    (named,) = errors(mine.get(path, {name: "1"}))
    assert named[:5] == name.replace("\x00", "\\u0000")[:5]
    assert len(named) <= 65


@pytest.mark.parametrize("path", ["/webhooks/{id}", "/webhooks/{id}/pause", "/events/evt_1", "/webhooks"])
def test_operations_without_parameters_take_none(mine: Api, path: str) -> None:
    path = path.format(id=rows.endpoint().public_id)
    call = mine.post if path.endswith(("pause", "webhooks")) else mine.get
    assert list(errors(call(f"{path}?verbose=1"))) == ["verbose"]


def test_a_parameter_given_twice(mine: Api) -> None:
    assert list(errors(mine.get("/webhooks?limit=1&limit=2"))) == ["limit"]


@pytest.mark.parametrize(
    ("path", "query", "named"),
    [
        ("/webhooks/{id}/deliveries", {"state": "done"}, "state"),
        ("/webhooks/{id}/deliveries", {"state": ""}, "state"),
        ("/webhooks/{id}/deliveries", {"event_type": ""}, "event_type"),
        ("/webhooks/{id}/deliveries", {"event_type": "a\x00"}, "event_type"),
        ("/webhooks/{id}/deliveries", {"event_type": "x" * 129}, "event_type"),
        ("/webhooks/{id}/attempts", {"status": "pending"}, "status"),
        ("/webhooks/{id}/attempts", {"error": "nope"}, "error"),
        ("/webhooks/{id}/attempts", {"http_status": "99"}, "http_status"),
        ("/webhooks/{id}/attempts", {"http_status": "+200"}, "http_status"),
        ("/webhooks/{id}/attempts", {"http_status": "1000"}, "http_status"),
        ("/webhooks/{id}/attempts", {"trigger": ""}, "trigger"),
        ("/deliveries", {"status": "pending"}, "status"),
        ("/deliveries", {"error": "TIMEOUT"}, "error"),
        ("/deliveries", {"webhook_id": ""}, "webhook_id"),
        ("/deliveries", {"webhook_id": "a\x00"}, "webhook_id"),
        ("/events", {"owner_id": "1"}, "owner_kind"),
        ("/events", {"identity_id": ""}, "identity_id"),
        ("/audit", {"target_id": "x" * 129}, "target_id"),
        ("/jobs", {"state": "open"}, "state"),
        ("/jobs", {"kind": "x"}, "kind"),
        ("/webhooks/{id}/attempts", {"since": "yesterday"}, "since"),
        ("/events", {"since": "2026-10-01"}, "since"),
        ("/events", {"since": "2026-10-01T00:00:00"}, "since"),
        ("/events", {"since": "2026-10-01T00:00:00 02:00"}, "since"),
        ("/events", {"until": "2026-13-01T00:00:00Z"}, "until"),
        ("/events", {"since": "2026-10-01T00:00:00Z", "until": "2026-10-01T00:00:00Z"}, "until"),
        ("/events", {"type": ""}, "type"),
        ("/events", {"tenant_id": ""}, "tenant_id"),
        ("/webhooks", {"tenant_id": "x" * 129}, "tenant_id"),
    ],
)
def test_a_bad_filter_is_named(mine: Api, path: str, query: Any, named: str) -> None:
    path = path.format(id=rows.endpoint().public_id)
    assert list(errors(mine.get(path, query))) == [named]


def test_filters_of_deliveries(mine: Api) -> None:
    endpoint = rows.endpoint()
    later = rows.NOW + timedelta(seconds=1)
    one = rows.delivery(endpoint, state="delivered", last_error="timeout", attempts=2, finished_at=rows.NOW)
    two = rows.delivery(endpoint, rows.event(type="user.created"), created_at=later, due_at=later)
    path = f"/webhooks/{endpoint.public_id}/deliveries"

    def ids(**query: str) -> list[str]:
        return [row["id"] for row in mine.get(path, query).json()["data"]]

    assert (
        ids(state="delivered")
        == ids(event_type="order.paid")
        == ids(until=later.isoformat())
        == [one.public_id]
    )
    assert ids(state="pending") == ids(since=later.isoformat()) == [two.public_id]
    assert mine.get(path, {"state": "delivered"}).json()["data"] == [
        {
            "id": one.public_id,
            "webhook_id": endpoint.public_id,
            "event_id": one.event.public_id,
            "event_type": "order.paid",
            "state": "delivered",
            "attempts": 2,
            "due_at": None,
            "last_error": "timeout",
            "first_delivered_at": None,
            "created_at": "2026-10-01T12:00:00.123Z",
            "finished_at": "2026-10-01T12:00:00.123Z",
        }
    ]


def test_filters_of_attempts(mine: Api) -> None:
    endpoint = rows.endpoint()
    job = rows.delivery(endpoint)
    good = rows.attempt(endpoint, job)
    headers = [["X-A", "1"]]
    bad = rows.attempt(
        endpoint,
        event_type="user.created",
        status="failed",
        error="reset",
        http_status=None,
        reply_headers=headers,
        reply_body="<b>é".encode() + b"\0\xc3",
    )
    path = f"/webhooks/{endpoint.public_id}/attempts"

    def rows_of(**query: str) -> list[Any]:
        return list(mine.get(path, query).json()["data"])

    assert [row["id"] for row in rows_of(status="succeeded")] == [good.public_id]
    (shown,) = rows_of(event_type="user.created", status="failed")
    assert (shown["id"], shown["delivery_id"], shown["error"]) == (bad.public_id, None, "reset")
    assert shown["reply"] == {"headers": [{"name": "X-A", "value": "1"}], "body": "<b>é\ufffd"}
    assert rows_of(event_type="order.paid")[0]["delivery_id"] == job.public_id


def test_an_attempt_outlives_its_delivery(mine: Api) -> None:
    endpoint = rows.endpoint()
    job = rows.delivery(endpoint)
    rows.attempt(endpoint, job)
    Delivery.objects.filter(pk=job.pk).delete()
    (shown,) = mine.get(f"/webhooks/{endpoint.public_id}/attempts").json()["data"]
    assert shown["delivery_id"] is None


def test_filters_of_events_and_webhooks(api: Callable[..., Api]) -> None:
    ours, theirs = rows.event("a", partner_id="p"), rows.event("c", partner_id="q", type="user.created")
    first, second = rows.endpoint("a"), rows.endpoint("c")

    def ids(scope: str, path: str, **query: str) -> list[str]:
        return [row["id"] for row in api(scope).get(path, query).json()["data"]]

    assert ids("platform", "/events") == [theirs.public_id, ours.public_id]
    assert ids("platform", "/events", tenant_id="a") == ids("partner:p", "/events") == [ours.public_id]
    assert ids("platform", "/events", type="user.created") == [theirs.public_id]
    assert ids("tenant:a", "/events", tenant_id="c") == ids("partner:p", "/events", tenant_id="c") == []
    assert ids("platform", "/webhooks", tenant_id="c") == [second.public_id]
    assert ids("partner:p", "/webhooks") == ids("tenant:a", "/webhooks") == [first.public_id]
    assert ids("tenant:a", "/webhooks", tenant_id="c") == []


def test_a_page_costs_the_same_whatever_its_length(
    mine: Api, listed: Any, django_assert_num_queries: Any
) -> None:
    path, fill, endpoint = listed
    fill(endpoint, 30)
    mine.get(path, {"limit": 1})
    # The clock and the key; the webhook, or all of them; where the page stops; the page; its events.
    expected = {"/webhooks": 3, "/jobs": 3, "/events": 4, "/deliveries": 6}.get(path, 4)
    if path.endswith("/deliveries") and path.startswith("/webhooks"):
        expected = 5
    for limit in (1, 30):
        with django_assert_num_queries(expected) as captured:
            mine.get(path, {"limit": limit})
        assert not any("COUNT(" in query["sql"].upper() for query in captured.captured_queries)


def test_events_of_nobody_are_the_platforms(api: Callable[..., Api]) -> None:
    made = rows.event(None)
    assert Event.objects.get(pk=made.pk).tenant_id is None
    assert [row["id"] for row in api("platform").get("/events").json()["data"]] == [made.public_id]
    assert api("tenant:a").get("/events").json()["data"] == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("-1", "Ensure this value is greater than or equal to 100."),
        ("-" + "9" * 30, "Ensure this value is greater than or equal to 100."),
        ("1000", "Ensure this value is less than or equal to 999."),
        ("9" * 5000, "Ensure this value is less than or equal to 999."),
        ("2.0", "Must be a whole number."),
        ("--1", "Must be a whole number."),
        ("٢٠٠", "Must be a whole number."),
    ],
)
def test_a_number_out_of_range_is_told_so(mine: Api, given: str, said: str) -> None:
    response = mine.get(f"/webhooks/{rows.endpoint().public_id}/attempts", {"http_status": given})
    assert response.status_code == 400
    assert errors(response) == {"http_status": said}
