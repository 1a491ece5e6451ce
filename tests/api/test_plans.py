"""The logs of a webhook are read along an index, in its order: no sort, however many rows there are."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.api import rows
from tests.api.client import Api

pytestmark = [pytest.mark.django_db, pytest.mark.pg]


@pytest.mark.parametrize(
    ("path", "table", "index"),
    [
        ("deliveries", "webhooks_app_delivery", "webhooks_delivery_once"),
        ("attempts", "webhooks_app_attempt", "webhooks_attempt_endpoint"),
    ],
)
def test_a_log_is_read_in_the_order_of_its_index(mine: Api, path: str, table: str, index: str) -> None:
    endpoint = rows.endpoint()
    for _ in range(5):
        rows.attempt(endpoint, rows.delivery(endpoint))
    path = f"/webhooks/{endpoint.public_id}/{path}"
    cursor = mine.get(path, {"limit": 2}).json()["next_cursor"]
    with CaptureQueriesContext(connection) as queries:
        mine.get(path, {"limit": 2, "cursor": cursor})
    (sql,) = [query["sql"] for query in queries if f'FROM "{table}"' in query["sql"]]
    with connection.cursor() as statements:
        # With five rows a sort is as cheap as an index; switched off, it appears only where no index serves.
        for way in ("seqscan", "bitmapscan", "sort"):
            statements.execute(f"SET LOCAL enable_{way} = off")
        statements.execute("EXPLAIN " + sql)
        plan = "\n".join(row[0] for row in statements.fetchall())
    assert f"Index Scan Backward using {index}" in plan, plan
    assert "Sort" not in plan, plan
