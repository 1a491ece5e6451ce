"""Lists are read along an index, in its order: no sort, however many rows there are."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api import rows
from tests.api.client import Api
from tests.plans import explained
from webhooks_app.api import delivery_pages, pagination

pytestmark = [pytest.mark.django_db, pytest.mark.pg, pytest.mark.usefixtures("tables_as_new")]


LISTS = [
    ("/webhooks/{id}/deliveries", {}, "webhooks_app_delivery", "webhooks_delivery_once"),
    ("/webhooks/{id}/deliveries", {"status": "dead"}, "webhooks_app_delivery", "webhooks_delivery_dead"),
    ("/webhooks/{id}/deliveries", {"state": "expired"}, "webhooks_app_delivery", "webhooks_delivery_dead"),
    ("/webhooks/{id}/attempts", {}, "webhooks_app_attempt", "webhooks_attempt_endpoint"),
    ("/events", {}, "webhooks_app_event", "webhooks_event_tenant"),
]


@pytest.mark.parametrize(("path", "query", "table", "index"), LISTS)
def test_a_list_is_read_in_the_order_of_its_index(
    mine: Api, path: str, query: dict[str, str], table: str, index: str
) -> None:
    endpoint = rows.endpoint()
    for n in range(5):
        about = rows.event(occurred_at=rows.NOW + timedelta(seconds=n))
        rows.attempt(endpoint, rows.delivery(endpoint, about, state="expired" if query else "delivered"))
    path, query = path.format(id=endpoint.public_id), {**query, "limit": "2"}
    query["cursor"] = mine.get(path, query).json()["next_cursor"]
    with CaptureQueriesContext(connection) as queries:
        mine.get(path, query)
    statements = [query["sql"] for query in queries if f'FROM "{table}"' in query["sql"]]
    assert statements
    for sql in statements:
        plan = plan_of(sql)
        assert f"Index Scan Backward using {index}" in plan or f"Only Scan Backward using {index}" in plan, (
            plan
        )
        # Rows of one moment may be put in order among themselves.
        assert "Sort" not in plan.replace("Incremental Sort", "").replace("Sort Key", ""), plan


def test_deliveries_of_all_are_walked_by_event(
    api: Callable[..., Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_pages, "MERGED", 1)
    for endpoint in (rows.endpoint("a"), rows.endpoint("b")):
        rows.delivery(endpoint)
    with CaptureQueriesContext(connection) as queries:
        assert len(api("platform").get("/deliveries").json()["data"]) == 2
    page = [query["sql"] for query in queries if 'FROM "webhooks_app_delivery"' in query["sql"]][-1]
    assert "webhooks_delivery_event" in plan_of(page)


FILL = """
INSERT INTO webhooks_app_event (public_id, type, tenant_id, environment, occurred_at, recorded_at,
  fanned_out_at, fan_out_cursor)
SELECT 'evt_many' || n, CASE WHEN n %% 100 = 0 THEN 'order.rare' ELSE 'order.paid' END, 'acme', 'live',
  now(), now(), now(), 0 FROM generate_series(1, 20000) n;
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, attempts, step, deferrals, lapses,
  position, last_error, occurred_at, created_at, finished_at)
SELECT endpoint, id, 'delivered', 0, 1, 0, 0, 0, id, '', now(), now(), now()
FROM webhooks_app_event, unnest(%s::bigint[]) AS endpoint
"""


@pytest.mark.parametrize("query", [{"event_type": "order.rare"}, {"event_type": "no.such"}, {"error": "dns"}])
@pytest.mark.parametrize("path", ["/webhooks/{id}/deliveries", "/deliveries"])
def test_a_filter_reads_a_stretch_and_no_table(
    mine: Api, path: str, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "LOOKED_AT", 400)
    endpoints = [rows.endpoint(), rows.endpoint()]
    with connection.cursor() as cursor:
        cursor.execute(FILL, [[each.pk for each in endpoints]])
        cursor.execute("ANALYZE webhooks_app_event, webhooks_app_delivery")
    path = path.format(id=endpoints[0].public_id)
    cursor = mine.get(path, query).json()["next_cursor"]
    with explained(analyze=True) as plans:
        assert mine.get(path, {**query, "cursor": cursor}).json()["next_cursor"]
    plans.check()
    assert plans.most_read("webhooks_app_event") <= 450
    assert plans.most_read("webhooks_app_delivery") <= 900


@pytest.mark.parametrize("scope", ["tenant:acme", "partner:p"])
def test_a_key_for_tests_reads_no_live_events(api: Callable[..., Api], scope: str) -> None:
    test = api(scope, environment="test")
    with connection.cursor() as cursor:
        cursor.execute(FILL, [[rows.endpoint().pk]])
        cursor.execute("UPDATE webhooks_app_event SET partner_id = 'p'")
        rows.event("acme", partner_id="p", environment="test")
        cursor.execute("ANALYZE webhooks_app_event")
    with explained(analyze=True) as plans:
        assert len(test.get("/events", {"type": "order.paid"}).json()["data"]) == 1
    assert plans.most_read("webhooks_app_event") <= 1


SOME = """
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, attempts, step, deferrals, lapses,
  position, last_error, occurred_at, created_at, finished_at)
SELECT %s, id, 'delivered', 0, 1, 0, 0, 0, id, '', now(), now(), now()
FROM webhooks_app_event WHERE {} ORDER BY id
"""


@pytest.mark.parametrize("which", ["id %% 40 = 0", "id %% 20000 < 2000"])
@pytest.mark.parametrize("path", ["/webhooks/{id}/deliveries", "/deliveries"])
def test_a_filter_by_type_reads_no_events_but_those_of_the_deliveries(
    mine: Api, path: str, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether these are few among very many, or old ones all of them."""
    monkeypatch.setattr(pagination, "LOOKED_AT", 400)
    endpoint = rows.endpoint()
    with connection.cursor() as cursor:
        cursor.execute(FILL, [[rows.endpoint("b").pk]])
        cursor.execute(SOME.format(which), [endpoint.pk])
        cursor.execute("ANALYZE webhooks_app_event, webhooks_app_delivery")
    with explained(analyze=True) as plans:
        page = mine.get(path.format(id=endpoint.public_id), {"event_type": "no.such"}).json()
    assert page["data"] == []
    assert page["next_cursor"]
    assert plans.most_read("webhooks_app_event") <= 450


def plan_of(sql: str) -> str:
    """Return the plan of a statement as if the tables were large."""
    with connection.cursor() as statements:
        # With five rows a sort is as cheap as an index; switched off, it appears only where no index serves.
        for way in ("seqscan", "bitmapscan", "sort"):
            statements.execute(f"SET LOCAL enable_{way} = off")
        statements.execute("EXPLAIN " + sql)
        return "\n".join(row[0] for row in statements.fetchall())
