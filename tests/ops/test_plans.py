"""Status and health read a bounded part of an index each, in its order, however many rows there are."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.actions.builders import make_attempt, make_delivery, make_endpoint
from webhooks_app.models import Endpoint
from webhooks_app.ops.health import health
from webhooks_app.ops.status import status

pytestmark = [pytest.mark.django_db, pytest.mark.pg, pytest.mark.usefixtures("tables_as_new")]

ROWS = 5_000
DELIVERIES = """INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, due_at, attempts,
step, deferrals, lapses, position, occurred_at, last_error, created_at)
SELECT %s, -n, CASE WHEN n %% 2 = 0 THEN 'pending' ELSE 'delivered' END, n %% 4,
CASE WHEN n %% 2 = 0 THEN now() END, 1, 0, 0, 0, n, now(), '', now() FROM generate_series(1, %s) n"""
ATTEMPTS = """INSERT INTO webhooks_app_attempt (id, endpoint_id, event_id, event_type, number, trigger,
status, error, detail, duration_ms, url, signature, reply_headers, reply_body, created_at)
SELECT gen_random_uuid(), %s, '', '', n, 'schedule', 'succeeded', '', '', 1, '', '', '[]', '', now()
FROM generate_series(1, %s) n"""


@pytest.fixture
def endpoint() -> Endpoint:
    """One endpoint that has nearly all rows of the tables: the worst there is for an index by endpoint."""
    row = make_endpoint()
    make_attempt(make_delivery(make_endpoint(tenant_id="other")))
    with connection.cursor() as cursor:
        for statement in (DELIVERIES, ATTEMPTS):
            cursor.execute(statement, [row.pk, ROWS])
        cursor.execute("ANALYZE webhooks_app_delivery, webhooks_app_attempt")
    return Endpoint.objects.select_related("state").get(pk=row.pk)


def plans(ask: Callable[..., object], endpoint: Endpoint) -> list[str]:
    """The plans of the queries that a question puts, with what was really read."""
    with CaptureQueriesContext(connection) as captured:
        ask("default", endpoint, timezone.now())
    found = []
    with connection.cursor() as cursor:
        # A table of two rows is read whole or by its index, as the statistics happen to be.
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in captured.captured_queries:
            cursor.execute("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) " + query["sql"])
            found.append("\n".join(row[0] for row in cursor.fetchall()))
    return found


@pytest.mark.parametrize(
    ("ask", "indexes"),
    [
        (
            status,
            ["webhooks_delivery_leased", "webhooks_delivery_due", "webhooks_delivery_due"],
        ),
        (health, ["webhooks_attempt_endpoint", "webhooks_delivery_due"]),
    ],
)
def test_every_question_has_its_index(
    endpoint: Endpoint, ask: Callable[..., object], indexes: list[str]
) -> None:
    found = plans(ask, endpoint)
    assert len(found) == len(indexes)
    for index in indexes:
        assert sum(index in plan for plan in found) == indexes.count(index), found
    for plan in found:
        assert "Seq Scan on webhooks_app_delivery" not in plan, plan
        assert "Seq Scan on webhooks_app_attempt" not in plan, plan
        assert "Sort" not in plan, plan
        assert "rows=5000" not in plan, plan
        assert "Rows Removed by Filter" not in plan, plan
