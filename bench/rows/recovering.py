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
from webhooks_app.actions.pause import pause
from webhooks_app.actions.recover import recover
from webhooks_app.models import Endpoint, Job

LIVE, DOWN = "live", "down"
PER_SECOND = 50
GIVE_UP = 300.0
ACTOR = operator("command", "bench")


def beside_live_traffic(run: Run) -> Iterator[Result]:
    """Recover deliveries that died: seconds until all are queued, latency of another endpoint meanwhile.

    First for a paused endpoint, which is queueing alone, then for one that gets them as they are queued, and
    on while they are sent.
    """
    dead, span = run.size(100_000, 5_000), run.size(20, 4)
    with run.stage() as stage:
        url = stage.receiver.endpoint
        paused, down, _ = filling.add_endpoints([(DOWN, url("paused")), (DOWN, url(DOWN)), (LIVE, url(LIVE))])
        old_rows.fill(DOWN, [paused, down], 2 * dead, state="exhausted")
        pause(ACTOR, Endpoint.objects.get(pk=paused))
        stage.start_worker()
        without = _stream(stage, span, lambda: True)
        arms = {"queueing": _arm(stage, paused, 1), "sending": _arm(stage, down, 2 * span)}
        ticks = stage.ticks
    figures: dict[str, Any] = {"dead": dead, **_named("without", without)}
    for name, arm in arms.items():
        figures |= _named(name, arm)
        figures[f"{name}_p95_ratio"] = round(arm["p95_ms"] / without["p95_ms"], 2)
    figures["ticks_needed"] = ticks
    targets = [
        target
        for name in arms
        for target in (at_most(f"{name}_queued_s", 30), at_most(f"{name}_p95_ratio", 1.5))
    ]
    yield Result("recovery", figures, tuple(targets))


def _arm(stage: Stage, endpoint_id: int, seconds: float) -> dict[str, Any]:
    """Recover one endpoint beside live traffic; return the latencies meanwhile, and how the job went."""
    started = time.monotonic()
    job = recover(ACTOR, Endpoint.objects.get(pk=endpoint_id), since=timezone.now() - timedelta(days=30))
    answered = time.monotonic() - started
    stats = _stream(stage, seconds, lambda: _has_ended(job))
    job.refresh_from_db()
    if job.state != Job.State.SUCCEEDED or job.started_at is None or job.finished_at is None:
        raise RuntimeError(f"the job {job.state}: {job.error}")
    return {
        **stats,
        "queued": job.done,
        "answered_s": round(answered, 2),
        "begun_after_s": round((job.started_at - job.created_at).total_seconds(), 2),
        "queued_s": round((job.finished_at - job.created_at).total_seconds(), 1),
    }


def _stream(stage: Stage, seconds: float, is_over: Callable[[], bool]) -> dict[str, Any]:
    """Emit at a steady rate for so many seconds, and on until `is_over()`; return the latencies."""
    stage.receiver.reset()
    meter, started, count = stage.meter(), time.monotonic(), 0
    while count < seconds * PER_SECOND or count % PER_SECOND or not is_over():
        if time.monotonic() - started > GIVE_UP:
            raise TimeoutError(f"not over after {GIVE_UP:.0f} s")
        time.sleep(max(0.0, started + count / PER_SECOND - time.monotonic()))
        emit_now(LIVE)
        count += 1
    used, took = meter.used(), time.monotonic() - started
    # How many cores were busy for the measurement, and how many for somebody else.
    others = used.pop("others") / took
    cores = {"cores": round(sum(used.values()) / took, 2), "other_cores": round(others, 2)}
    sent = stage.receiver.stats(DOWN)["count"]
    stage.wait(lambda: stage.receiver.stats(LIVE)["count"] >= count)
    return {**stage.receiver.stats(LIVE), "recovered_per_s": round(sent / took), **cores}


def _has_ended(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk, finished_at__isnull=False).exists()


def _named(name: str, arm: dict[str, Any]) -> dict[str, Any]:
    left_out = ("timed", "open", "peak", "last_at", "p99_ms")
    return {f"{name}_{key}": value for key, value in arm.items() if key not in left_out}
