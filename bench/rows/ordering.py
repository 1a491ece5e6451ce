"""What order costs: one endpoint with strict order, with order by owner, and with none."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from bench import filling
from bench.results import Result, at_least
from bench.rows import Run
from bench.stage import Stage

KINDS = ("none", "fifo", "subject")
OWNERS = 100


def orders_beside_none(run: Run) -> Iterator[Result]:
    """The same events of a hundred owners to endpoints of each order, in turns, in one worker."""
    events, rounds = run.size(5_000, 1_000), run.size(3, 2)
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    with run.stage() as stage:
        for kind in KINDS:
            filling.add_endpoints([(kind, stage.receiver.endpoint(kind))], ordering=kind)
        stage.start_worker()
        for kind in KINDS:
            _measure(stage, kind, 500)
        for _ in range(rounds):
            for kind in KINDS:
                found[kind].append(_measure(stage, kind, events))
    figures: dict[str, Any] = {"events": events, "owners": OWNERS, "ticks_needed": stage.ticks}
    for key in ("deliveries_per_s", "cpu_us_per_delivery", "pg_cpu_us_per_delivery"):
        figures |= {f"{kind}_{key}": round(median(each[key] for each in found[kind])) for kind in KINDS}
    for kind in ("fifo", "subject"):
        figures[f"{kind}_ratio"] = round(
            figures[f"{kind}_deliveries_per_s"] / figures["none_deliveries_per_s"], 2
        )
    figures["runs_per_s"] = {kind: [each["deliveries_per_s"] for each in found[kind]] for kind in KINDS}
    yield Result(
        "ordering", figures, (at_least("fifo_deliveries_per_s", 1000), at_least("subject_ratio", 0.8))
    )


def _measure(stage: Stage, kind: str, events: int) -> dict[str, Any]:
    filling.commit_events([kind] * events, owners=OWNERS)
    return stage.measure(events)
