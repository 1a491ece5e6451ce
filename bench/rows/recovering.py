"""Recovery of a long outage beside another tenant's live traffic."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.utils import timezone

from bench import filling, old_rows
from bench.results import Result, at_most
from bench.rows import Run
from bench.rows.latency import emit_now
from bench.stage import Stage
from webhooks_app.actions.actor import operator
from webhooks_app.actions.recover import recover
from webhooks_app.models import Endpoint, Job

LIVE, DOWN = "live", "down"
PER_SECOND = 50
GIVE_UP = 300.0


def beside_live_traffic(run: Run) -> Iterator[Result]:
    """Recover deliveries that died: seconds until all are queued, latency of another endpoint meanwhile."""
    dead, span = run.size(100_000, 5_000), run.size(20, 4)
    with run.stage() as stage:
        url = stage.receiver.endpoint
        down, _ = filling.add_endpoints([(DOWN, url(DOWN)), (LIVE, url(LIVE))])
        old_rows.fill(DOWN, [down], dead, state="exhausted")
        stage.start_worker()
        without = _stream(stage, span, lambda: True)
        started = time.monotonic()
        job = recover(
            operator("command", "bench"), Endpoint.objects.get(pk=down), since=timezone.now() - timedelta(30)
        )
        answered = time.monotonic() - started
        beside = _stream(stage, span, lambda: _has_ended(job))
        job.refresh_from_db()
    figures: dict[str, Any] = {"dead": dead, "queued": job.done, "answered_s": round(answered, 2)}
    if job.started_at and job.finished_at:
        figures["begun_after_s"] = round((job.started_at - job.created_at).total_seconds(), 2)
        figures["queued_s"] = round((job.finished_at - job.created_at).total_seconds(), 1)
    for name, arm in (("without", without), ("beside", beside)):
        figures |= {f"{name}_{key}": arm[key] for key in ("count", "p50_ms", "p95_ms", "p100_ms")}
    figures |= {"delivered_meanwhile": beside["recovered"], "ticks_needed": stage.ticks}
    figures["p95_ratio"] = round(beside["p95_ms"] / without["p95_ms"], 2)
    yield Result("recovery", figures, (at_most("queued_s", 30), at_most("p95_ratio", 1.5)))


def _stream(stage: Stage, seconds: float, is_over: Callable[[], bool]) -> dict[str, Any]:
    """Emit at a steady rate for so many seconds, and on until `is_over()`; return the latencies."""
    stage.receiver.reset()
    started, count = time.monotonic(), 0
    while count < seconds * PER_SECOND or count % PER_SECOND or not is_over():
        if time.monotonic() - started > GIVE_UP:
            raise TimeoutError(f"not over after {GIVE_UP:.0f} s")
        time.sleep(max(0.0, started + count / PER_SECOND - time.monotonic()))
        emit_now(LIVE)
        count += 1
    recovered = stage.receiver.stats(DOWN)["count"]
    stage.wait(lambda: stage.receiver.stats(LIVE)["count"] >= count)
    return {**stage.receiver.stats(LIVE), "recovered": recovered}


def _has_ended(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, finished_at__isnull=False).exists()
