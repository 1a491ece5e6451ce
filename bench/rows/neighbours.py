"""Healthy endpoints beside endpoints that hang."""

import time
from collections.abc import Iterator
from typing import Any

from bench import filling
from bench.results import Result, at_most
from bench.rows import Run
from bench.rows.latency import emit_now
from bench.stage import Stage

EVERY = 0.1
HEALTHY, HANGING = 80, 20


def four_hanging(run: Run) -> Iterator[Result]:
    """Four hanging endpoints with 200 events each are woken one after another; then a healthy one gets 20."""
    hang_ms, events = run.size(15_000, 8_000), 20
    with run.stage() as stage:
        bad = stage.receiver.endpoint("hanging", wait_ms=hang_ms)
        filling.add_endpoints([(f"bad-{number}", bad) for number in range(4)])
        filling.add_endpoints([("good", stage.receiver.endpoint("healthy"))])
        stage.start_worker()
        for number in range(4):
            filling.commit_events([f"bad-{number}"] * 200, together=True)
            stage.ring()
            time.sleep(0.1)
        filling.commit_events(["good"] * events, together=True)
        started = time.monotonic()
        stage.ring()
        stage.wait(lambda: stage.receiver.stats("healthy")["count"] >= events)
        seconds = stage.receiver.stats("healthy")["last_at"] - started
        open_requests = stage.receiver.stats("hanging")["open"]
    figures = {
        "healthy_done_s": round(seconds, 3),
        "hanging_open": open_requests,
        "ticks_needed": stage.ticks,
    }
    yield Result("four_hanging", figures, (at_most("healthy_done_s", 1.0),))


def beside_hanging(run: Run) -> Iterator[Result]:
    """A fifth of the endpoints hang: latencies of the others, first unknown, then known, and without them."""
    hang, span = run.size(15, 2), run.size(10, 2)
    without = _arm(run, hanging=0, hang=0, span=span)
    beside = _arm(run, hanging=HANGING, hang=hang, span=span)
    figures: dict[str, Any] = {}
    for name, arm in (("without", without), ("beside", beside)):
        for phase, stats in arm.items():
            figures |= {f"{name}_{phase}_{key}": stats[key] for key in ("count", "p50_ms", "p99_ms")}
    figures["p99_ratio"] = round(beside["warm"]["p99_ms"] / without["warm"]["p99_ms"], 2)
    targets = (at_most("p99_ratio", 2.0), at_most("beside_cold_p99_ms", 1000))
    yield Result("neighbours", figures, targets)


def _arm(run: Run, *, hanging: int, hang: int, span: int) -> dict[str, dict[str, Any]]:
    """Send every event to all endpoints: for `span` seconds to unknown ones, again once they are known."""
    with run.stage() as stage:
        good = stage.receiver.endpoint("healthy")
        bad = stage.receiver.endpoint("hanging", wait_ms=hang * 1000)
        filling.add_endpoints([("tenant", good)] * HEALTHY + [("tenant", bad)] * hanging)
        stage.start_worker()
        cold = _stream(stage, span)
        if hang:
            # Until the first round of hanging requests has ended and is recorded.
            _stream(stage, max(0, hang - span) + 2)
        return {"cold": cold, "warm": _stream(stage, span)}


def _stream(stage: Stage, seconds: float) -> dict[str, Any]:
    stage.receiver.reset()
    started, count = time.monotonic(), int(seconds / EVERY)
    for number in range(count):
        time.sleep(max(0.0, started + number * EVERY - time.monotonic()))
        emit_now("tenant")
    wanted = count * HEALTHY
    stage.wait(lambda: stage.receiver.stats("healthy")["count"] >= wanted)
    return stage.receiver.stats("healthy")
