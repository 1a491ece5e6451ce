"""Deliveries per second, and the CPU of each."""

from collections.abc import Iterator
from typing import Any

from bench import baseline, filling
from bench.results import Result, at_least, at_most
from bench.rows import Run

TENANT = "tenant"
BASELINE_ROUNDS = 1_500
CHEAP = (at_most("cpu_ratio", 2.0), at_most("cpu_s_per_1000", 0.6))


def one_endpoint(run: Run) -> Iterator[Result]:
    """All events to one endpoint."""
    events = run.size(10_000, 3_000)
    figures = fan(run, endpoints=1, events=events)
    yield Result("throughput_1", figures, (at_least("deliveries_per_s", 2500), *CHEAP))


def ten_endpoints(run: Run) -> Iterator[Result]:
    """Every event to ten endpoints."""
    figures = fan(run, endpoints=10, events=run.size(2_000, 400))
    yield Result("throughput_10", figures, (at_least("deliveries_per_s", 2500), *CHEAP))


def https(run: Run) -> Iterator[Result]:
    """One endpoint over TLS."""
    figures = fan(run, endpoints=1, events=run.size(10_000, 2_000), tls=True)
    yield Result("https", figures, (at_most("cpu_ratio", 2.0),))


def slow_receivers(run: Run) -> Iterator[Result]:
    """Twenty endpoints whose answers take 100 ms."""
    figures = fan(run, endpoints=20, events=run.size(500, 150), wait_ms=100)
    yield Result("slow_receivers", figures, (at_least("deliveries_per_s", 1200),))


def fan(
    run: Run,
    *,
    endpoints: int,
    events: int,
    wait_ms: int = 0,
    tls: bool = False,
) -> dict[str, Any]:
    """Measure `events` of one tenant, each to all of its endpoints."""
    url = run.servers.receiver.endpoint("fast", wait_ms=wait_ms, tls=tls)
    before = _baseline(run, tls=tls)
    with run.stage() as stage:
        filling.add_endpoints([(TENANT, f"{url}{number}") for number in range(endpoints)])
        stage.start_worker()
        filling.commit_events([TENANT] * events)
        figures = stage.measure(events * endpoints)
    after = before if run.quick else _baseline(run, tls=tls)
    return compared(figures, (before + after) / 2)


def many_endpoints(run: Run) -> Iterator[Result]:
    """One event to each of many endpoints: first on one host, then each on a host of its own."""
    count = run.size(10_000, 2_500)
    yield Result("many_endpoints", _scattered(run, count, "receiver"), (at_least("deliveries_per_s", 2000),))
    if not run.quick:
        yield Result("many_hosts", _scattered(run, count, "host-{}"))


def _scattered(run: Run, count: int, host: str) -> dict[str, Any]:
    receiver = run.servers.receiver
    tenants = [f"tenant-{number}" for number in range(count)]
    with run.stage() as stage:
        filling.add_endpoints(
            [(tenant, receiver.endpoint("fast", host=host.format(n))) for n, tenant in enumerate(tenants)]
        )
        stage.start_worker()
        filling.commit_events(tenants)
        return stage.measure(count)


def _baseline(run: Run, *, tls: bool) -> int:
    url = run.servers.receiver.endpoint("baseline", tls=tls)
    return baseline.measured(url, run.size(BASELINE_ROUNDS, 800))


def compared(figures: dict[str, Any], baseline_us: float) -> dict[str, Any]:
    """Add the baseline and what follows from it."""
    product, postgres = figures["cpu_us_per_delivery"], figures["pg_cpu_us_per_delivery"]
    return {
        **figures,
        "baseline_cpu_us": round(baseline_us),
        "cpu_ratio": round(product / baseline_us, 2),
        "cpu_s_per_1000": round((product + postgres) / 1000, 3),
    }
