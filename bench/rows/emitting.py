"""What `emit` costs its caller, beside the INSERT of the business row it tells of."""

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from django.db import transaction
from django.utils import timezone

from bench import sample
from bench.models import Order
from bench.results import Result, at_most
from bench.rows import Run
from webhooks_app.events import emit, emit_many

WARM_UP = 50
OWNERS = 1_000


def emit_beside_insert(run: Run) -> Iterator[Result]:
    """Alternate a bare INSERT, an INSERT with an emit, and an emit alone, each in a transaction."""
    with run.stage():
        figures = _alternate(run.size(1_500, 400)) | _many(run.size(80, 25))
    targets = (
        at_most("insert_and_emit_ratio", 2.0),
        at_most("emit_ratio", 2.0),
        at_most("emit_many_cpu_us", 60),
    )
    yield Result("emit", figures, targets)


def _alternate(rounds: int) -> dict[str, Any]:
    kinds: dict[str, Callable[[int], None]] = {
        "insert": _insert,
        "insert_and_emit": _insert_and_emit,
        "insert_and_emit_owned": _insert_and_emit_owned,
        "emit": _emit,
    }
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds + WARM_UP):
        for kind, work in kinds.items():
            spent, used = _timed(work, number)
            if number >= WARM_UP:
                wall[kind].append(spent)
                cpu[kind].append(used)
    times = {f"{kind}_us": round(median(values) * 1e6) for kind, values in wall.items()}
    used_up = {f"{kind}_cpu_us": round(sum(values) / rounds * 1e6) for kind, values in cpu.items()}
    ratios = {f"{kind}_ratio": round(median(wall[kind]) / median(wall["insert"]), 2) for kind in kinds}
    return {"rounds": rounds, **times, **used_up, **ratios}


def _timed(work: Callable[[int], None], number: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    with transaction.atomic():
        work(number)
    return time.perf_counter() - wall, time.process_time() - cpu


def _insert(number: int) -> None:
    Order(name="order", number=number, note="n" * 400, placed_at=timezone.now()).save(force_insert=True)


def _emit(number: int) -> None:
    emit(sample.TYPE, sample.data(), tenant="tenant")


def _insert_and_emit(number: int) -> None:
    _insert(number)
    _emit(number)


def _insert_and_emit_owned(number: int) -> None:
    _insert(number)
    emit(sample.TYPE, sample.data(), tenant="tenant", owner=("order", str(number % OWNERS)))


def _many(rounds: int, size: int = 100) -> dict[str, Any]:
    items = [{"type": sample.TYPE, "data": sample.data(), "tenant": "tenant"} for _ in range(size)]
    for number in range(rounds + 3):
        if number == 3:
            started, wall = time.process_time(), time.perf_counter()
        with transaction.atomic():
            emit_many(items)
    each = rounds * size
    return {
        "emit_many_cpu_us": round((time.process_time() - started) / each * 1e6, 1),
        "emit_many_us": round((time.perf_counter() - wall) / each * 1e6, 1),
    }
