"""Pages of one endpoint's deliveries among millions, through the API's view."""

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db import connection
from django.test import Client
from django.utils import timezone

from bench import filling, old_rows
from bench.receiver import percentile
from bench.results import Result, at_most
from bench.rows import Run
from bench.rows.throughput import TENANT
from webhooks_app.actions.actor import WEBHOOKS_READ, operator
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.models import Endpoint

DEPTHS = (1, 10, 100, 1_000)
ENDPOINTS, RARE = 10, "order.cancelled"
# One delivery in a thousand died, one event in five hundred is of another type.
_RARITIES = (
    """UPDATE webhooks_app_delivery SET state = 'exhausted', last_error = 'status_5xx',
    first_delivered_at = NULL WHERE event_id % 1000 = 0""",
    "UPDATE webhooks_app_event SET type = 'order.cancelled' WHERE id % 500 = 1",
    "VACUUM ANALYZE",
)


def deliveries_of_one(run: Run) -> Iterator[Result]:
    """Latencies of pages at several depths, and of first pages by each filter, also one that nothing fits."""
    deliveries, times = run.size(5_000_000, 100_000), run.size(100, 10)
    with run.stage() as stage:
        url = stage.receiver.endpoint("fast")
        ids = filling.add_endpoints([(TENANT, url)] * ENDPOINTS)
        old_rows.fill(TENANT, ids, deliveries, attempts=False)
        with connection.cursor() as cursor:
            for statement in _RARITIES:
                cursor.execute(statement)
        pages = Pages(Endpoint.objects.get(pk=ids[ENDPOINTS // 2]).public_id)
        pages.p95(10, {})
        figures: dict[str, Any] = {"deliveries": deliveries, "requests_each": times}
        figures |= {f"page_{depth}_p95_ms": pages.p95(times, at) for depth, at in pages.walk(max(DEPTHS))}
        figures |= {f"{name}_p95_ms": pages.p95(times, given) for name, given in _filters().items()}
    p95s = {name: value for name, value in figures.items() if name.endswith("_p95_ms")}
    figures["slowest"] = max(p95s, key=lambda name: p95s[name])
    figures["slowest_p95_ms"] = p95s[figures["slowest"]]
    yield Result("listing", figures, (at_most("slowest_p95_ms", 50),))


def _filters() -> dict[str, dict[str, str]]:
    half, week = (timezone.now() - timedelta(days=days) for days in (15, 22))
    return {
        "state_delivered": {"state": "delivered"},
        "state_exhausted": {"state": "exhausted"},
        "state_pending": {"state": "pending"},
        "status_succeeded": {"status": "succeeded"},
        "status_dead": {"status": "dead"},
        "status_failed": {"status": "failed"},
        "error_rare": {"error": "status_5xx"},
        "error_none": {"error": "timeout"},
        "type_common": {"event_type": old_rows.sample.TYPE},
        "type_rare": {"event_type": RARE},
        "type_none": {"event_type": "nobody.sends"},
        "since": {"since": half.isoformat()},
        "until": {"until": half.isoformat()},
        "since_until": {"since": week.isoformat(), "until": half.isoformat()},
        "dead_of_type": {"status": "dead", "event_type": RARE},
    }


class Pages:
    """The list of one webhook's deliveries, read by a key of the platform, in this process."""

    def __init__(self, webhook: str) -> None:
        actor = operator("command", "bench")
        key = create_api_key(actor, scope="platform", permissions=[WEBHOOKS_READ], name="bench").key
        self._client = Client(headers={"authorization": f"Bearer {key}", "host": "localhost"})
        self._path = f"/v1/webhooks/{webhook}/deliveries"

    def get(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Read a page. Raises RuntimeError for anything but a page."""
        answer = self._client.get(self._path, query)
        if answer.status_code != 200:
            raise RuntimeError(f"{query}: {answer.status_code} {answer.content.decode()}")
        page: dict[str, Any] = answer.json()
        return page

    def p95(self, times: int, query: Mapping[str, str]) -> float:
        """Return the latency in milliseconds that 95 % of so many requests do not exceed."""
        spent = []
        for _ in range(times):
            started = time.perf_counter()
            self.get(query)
            spent.append(time.perf_counter() - started)
        return round(percentile(sorted(spent), 95) * 1000, 1)

    def walk(self, depth: int) -> Iterator[tuple[int, dict[str, str]]]:
        """Walk the pages; yield how deep, and the query, of those of DEPTHS."""
        query: dict[str, str] = {}
        for number in range(1, depth + 1):
            if number in DEPTHS:
                yield number, query
            cursor = self.get(query)["next_cursor"]
            if cursor is None:
                return
            query = {"cursor": cursor}
