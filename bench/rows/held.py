"""What a million deliveries cost that must not leave: held by pauses, by open breakers, by their lanes."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any

from django.db import connection
from django.utils import timezone

from bench import filling
from bench.results import Result, at_most
from bench.rows import Run
from webhooks_app.models import EndpointState
from webhooks_app.pipeline import tick
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.lease import lease
from webhooks_app.pipeline.record import give_back

ENDPOINTS, LIVE, IDLE = 300, 20, 1_000
ROUNDS = 30

# In lanes the first ten rows are the heads of ten lanes and wait for their retry, the others are parked.
_HELD = """INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, lane, due_at, attempts,
step, deferrals, lapses, position, occurred_at, last_error, created_at, started_at)
SELECT endpoint, n, 'pending', CASE WHEN %(lane)s THEN 3 ELSE n %% 3 END,
CASE WHEN %(lane)s THEN 'lane ' || n %% 10 END,
CASE WHEN NOT %(lane)s THEN now() - n * interval '1 ms' WHEN n < 10 THEN now() + interval '1 h' END,
0, 0, 0, 0, n, now(), '', now(), now()
FROM unnest(%(endpoints)s::bigint[]) endpoint, generate_series(0, %(each)s - 1) n"""


def a_million_held(run: Run) -> Iterator[Result]:
    """Times of a tick and of leases beside them; as many of each kind."""
    each = run.size(1_000_000, 60_000) // (3 * ENDPOINTS)
    with run.stage() as stage:
        url = stage.receiver.endpoint("fast")
        held = {name: _held(name, url, each) for name in ("paused", "broken", "blocked")}
        filling.add_endpoints([("idle", url)] * IDLE)
        live = filling.add_endpoints([("live", url)] * LIVE)
        _fill(live, 100, lane=False)
        EndpointState.objects.update(window=100)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        figures: dict[str, Any] = {"held": 3 * ENDPOINTS * each}
        figures |= _times("tick", _tick)
        for name, ids in held.items():
            figures |= _times(f"lease_{name}", partial(_lease, ids[:20]))
        mixed = [*held["paused"][:10], *held["broken"][:10], *held["blocked"][:10], *live]
        figures |= _times("lease_live", partial(_lease, mixed))
    targets = [at_most(f"{name}_ms", 50) for name in ("tick", "lease_live", *(f"lease_{n}" for n in held))]
    yield Result("held", figures, tuple(targets))


def _held(name: str, url: str, each: int) -> list[int]:
    ids = filling.add_endpoints([(name, url)] * ENDPOINTS, policy="strict")
    _fill(ids, each, lane=name == "blocked")
    now = timezone.now()
    states: dict[str, dict[str, Any]] = {
        "paused": {"paused_at": now},
        "broken": {"breaker": "open", "breaker_at": now, "probe_at": now + timedelta(hours=1)},
    }
    if name in states:
        EndpointState.objects.filter(pk__in=ids).update(**states[name])
    return ids


def _fill(ids: list[int], each: int, *, lane: bool) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_HELD, {"endpoints": ids, "each": each, "lane": lane})


def _times(name: str, work: Callable[[], float]) -> dict[str, float]:
    """Return the median and the largest time of some rounds, in milliseconds, the first one left out."""
    times = [work() for _ in range(ROUNDS + 1)][1:]
    return {f"{name}_ms": round(median(times) * 1000, 2), f"{name}_max_ms": round(max(times) * 1000, 2)}


def _tick() -> float:
    EndpointState.objects.exclude(woken_until=None).update(woken_until=None)
    started = time.perf_counter()
    found = tick.look("default")
    spent = time.perf_counter() - started
    if len(found.due) != LIVE:
        raise RuntimeError(f"the tick found {len(found.due)} endpoints instead of {LIVE}")
    return spent


def _lease(ids: list[int]) -> float:
    started = time.perf_counter()
    held = lease("default", ids, Room(1_000, 1_000))
    spent = time.perf_counter() - started
    if held.units:
        give_back("default", held)
    return spent
