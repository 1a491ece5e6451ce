"""From the call of `emit` to the receiver's first sight of the request."""

import random
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from django.db import transaction

from bench import filling, sample
from bench.results import Result, at_most
from bench.rows import Run
from bench.stage import Stage, per_delivery
from webhooks_app.events import emit

TENANT = "tenant"
PER_SECOND = 200


def emit_to_received(run: Run) -> Iterator[Result]:
    """One endpoint: events one by one, then at a steady 200 a second."""
    with run.stage() as stage:
        filling.add_endpoints([(TENANT, stage.receiver.endpoint("fast"))])
        stage.start_worker()
        _idle(stage, 20)
        idle = _idle(stage, run.size(100, 40))
        yield Result("latency_idle", idle, (at_most("p50_ms", 10),))
        with stage.sampled():
            busy = _steady(stage, PER_SECOND * run.size(15, 3))
        yield Result("latency_200_per_s", busy, (at_most("p50_ms", 12), at_most("p95_ms", 30)))


def _idle(stage: Stage, count: int) -> dict[str, Any]:
    stage.receiver.reset()
    for _ in range(count):
        emit_now()
        # Not a multiple of any beat of the product.
        time.sleep(random.uniform(0.04, 0.08))
    stage.wait(lambda: stage.receiver.count() >= count)
    return stage.receiver.stats("fast")


def _steady(stage: Stage, count: int) -> dict[str, Any]:
    stage.receiver.reset()
    meter, started = stage.meter(), time.monotonic()
    spent = []
    for number in range(count):
        time.sleep(max(0.0, started + number / PER_SECOND - time.monotonic()))
        spent.append(emit_now())
    stage.wait(lambda: stage.receiver.count() >= count)
    figures = per_delivery(meter, count, time.monotonic() - started)
    return {**figures, **stage.receiver.stats("fast"), "emit_ms": round(median(spent) * 1000, 2)}


def emit_now(tenant: str = TENANT) -> float:
    """Emit one event that carries its time; return the seconds until its commit returned."""
    started = time.monotonic()
    with transaction.atomic():
        emit(sample.TYPE, sample.data(t=started), tenant=tenant)
    return time.monotonic() - started
