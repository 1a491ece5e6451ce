"""One tenant's event now and then beside another tenant's backlog."""

import time
from collections.abc import Iterator
from typing import Any

from bench import filling
from bench.results import Result, at_most
from bench.rows import Run
from bench.rows.latency import emit_now
from bench.stage import Stage
from webhooks_app.models import OutboxEntry

MANY, FEW = "many", "few"
EVERY = 0.1


def beside_a_backlog(run: Run) -> Iterator[Result]:
    """A tenant's one event every 100 ms: alone, then while another tenant's backlog is worked off."""
    backlog, span = run.size(200_000, 20_000), run.size(20, 3)
    without, beside = _arm(run, 0, span), _arm(run, backlog, span)
    figures: dict[str, Any] = {"backlog": backlog}
    for name, arm in (("without", without), ("beside", beside)):
        figures |= {f"{name}_{key}": arm[key] for key in ("count", "p50_ms", "p95_ms", "max_ms")}
    # What was fanned out, and what was delivered, of the backlog when the last of the few had arrived.
    figures |= {key: beside[key] for key in ("backlog_fanned_out", "backlog_delivered_per_s", "ticks_needed")}
    yield Result("fairness", figures, (at_most("beside_p95_ms", 500),))


def _arm(run: Run, backlog: int, span: float) -> dict[str, Any]:
    with run.stage() as stage:
        endpoint = stage.receiver.endpoint
        filling.add_endpoints([(MANY, endpoint(MANY)), (FEW, endpoint(FEW))])
        stage.start_worker()
        filling.commit_events([MANY] * backlog)
        stage.receiver.reset()
        started = time.monotonic()
        stage.ring()
        stats = _stream(stage, int(span / EVERY))
        waiting = OutboxEntry.objects.filter(tenant_id=MANY, dispatched_at=None, set_aside_at=None).count()
        delivered = stage.receiver.stats(MANY)["count"]
        return {
            **stats,
            "max_ms": stats["p100_ms"],
            "backlog_fanned_out": backlog - waiting,
            "backlog_delivered_per_s": round(delivered / (time.monotonic() - started)),
            "ticks_needed": stage.ticks,
        }


def _stream(stage: Stage, count: int) -> dict[str, Any]:
    started = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number * EVERY - time.monotonic()))
        emit_now(FEW)
    stage.wait(lambda: stage.receiver.stats(FEW)["count"] >= count)
    return stage.receiver.stats(FEW)
