"""Pruning a month's rows while events are emitted and delivered."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from django.db import connection

from bench import filling, old_rows
from bench.processes import ROOT
from bench.receiver import percentile
from bench.results import Result, at_most
from bench.rows import Run
from bench.rows.latency import TENANT, emit_now
from bench.stage import Stage
from webhooks_app.models import Attempt, Delivery, Event, OutboxEntry

PER_SECOND = 100
LOOK_EVERY = 0.01
_TABLES = (Delivery, Attempt, Event, OutboxEntry)
_WAITS = """SELECT COALESCE(max(EXTRACT(EPOCH FROM clock_timestamp() - waitstart)), 0)
FROM pg_locks WHERE NOT granted"""


def beside_emits(run: Run) -> Iterator[Result]:
    """Prune a million rows: the slowest `emit` and the longest wait for a lock meanwhile, and without."""
    deliveries, span = run.size(455_000, 20_000), run.size(20, 3)
    with run.stage() as stage:
        filling.add_endpoints([(TENANT, stage.receiver.endpoint("fast"))])
        old = filling.add_endpoints([("old", stage.receiver.endpoint("old"))] * old_rows.PER_EVENT)
        old_rows.fill("old", old, deliveries, days=(60, 31))
        stage.start_worker()
        before = _count()
        without = _emit_while(stage, span, lambda: False)
        started = time.monotonic()
        with _pruning(stage) as process:
            beside = _emit_while(stage, 0.0, lambda: process.poll() is None)
            told = process.communicate()[1]
        seconds = time.monotonic() - started
        if process.returncode:
            raise RuntimeError(f"webhooks_prune ended with {process.returncode}:\n{told}")
        emitted = without["emits"] + beside["emits"]
        # What each event that was emitted has left: an entry, an event, a delivery and an attempt.
        pruned = before + emitted * len(_TABLES) - _count()
    figures: dict[str, Any] = {"pruned_rows": pruned, "prune_s": round(seconds, 1)}
    for name, arm in (("without", without), ("beside", beside)):
        figures |= {f"{name}_{key}": value for key, value in arm.items()}
    targets = (at_most("beside_slowest_emit_ms", 100), at_most("beside_longest_lock_wait_ms", 100))
    yield Result("prune", figures, targets)


def _emit_while(stage: Stage, seconds: float, goes_on: Callable[[], bool]) -> dict[str, Any]:
    """Emit at a steady rate for so many seconds, and on while `goes_on()`; wait until all is delivered."""
    spent: list[float] = []
    stage.receiver.reset()
    started = time.monotonic()
    with LockWaits() as waits:
        while len(spent) < seconds * PER_SECOND or goes_on():
            time.sleep(max(0.0, started + len(spent) / PER_SECOND - time.monotonic()))
            spent.append(emit_now())
    stage.wait(lambda: stage.receiver.stats("fast")["count"] >= len(spent))
    stage.wait(lambda: not Delivery.objects.filter(state="pending").exists())
    spent.sort()
    return {
        "emits": len(spent),
        "p50_emit_ms": round(percentile(spent, 50) * 1000, 1),
        "p99_emit_ms": round(percentile(spent, 99) * 1000, 1),
        "slowest_emit_ms": round(spent[-1] * 1000, 1),
        "longest_lock_wait_ms": round(waits.longest * 1000, 1),
        "looks_for_locks": waits.looks,
    }


def _pruning(stage: Stage) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BENCH_DATABASE_URL": stage.url}
    command = [sys.executable, "-m", "django", "webhooks_prune"]
    # It tells little of its progress: the pipe never fills.
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _count() -> int:
    return sum(table.objects.count() for table in _TABLES)


class LockWaits:
    """Looks every 10 ms, inside the `with` block, for how long somebody has waited for a lock of any kind."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        with connection.cursor() as cursor:
            while not self._over.wait(LOOK_EVERY):
                cursor.execute(_WAITS)
                self.longest = max(self.longest, float(cursor.fetchone()[0]))
                self.looks += 1
        connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._over.set()
        self._thread.join()
