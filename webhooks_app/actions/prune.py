"""Prune: delete what is past its retention, in short transactions that the path does not wait for.

Deliveries go with their attempts when their end is old enough, test attempts by their age, events with
their bodies by `occurred_at`, deleted endpoints once nothing is left of them. Never touched: outbox entries
that are not dispatched yet, and events with open deliveries; prune ends the ones that are too old first.
An event's index row, which holds no payload, stays until the last delivery that points to it is gone.
Expired idempotency keys, jobs that ended long ago and full rate buckets go too.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from .. import conf
from ..pipeline import clock
from ..pipeline.retention import retention
from . import audit
from .actor import operator
from .prune_deliveries import end_orphans, prune_deliveries, prune_endpoints, prune_tests
from .prune_events import prune_events
from .prune_idempotency import prune_idempotency
from .prune_leftovers import prune_buckets, prune_jobs
from .sweep import Sweep


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows were deleted; `finished` is False when the time was over before the work."""

    events: int = 0
    deliveries: int = 0
    attempts: int = 0
    outbox: int = 0
    endpoints: int = 0
    idempotency: int = 0
    jobs: int = 0
    buckets: int = 0
    finished: bool = True


_STEPS: tuple[Callable[[Sweep], None], ...] = (
    end_orphans,
    prune_deliveries,
    prune_tests,
    prune_events,
    prune_endpoints,
    prune_idempotency,
    prune_jobs,
    prune_buckets,
)


def prune(
    *,
    now: datetime | None = None,
    batch: int = 1000,
    max_seconds: float | None = None,
    tell: Callable[[Mapping[str, int]], None] | None = None,
) -> Pruned:
    """Delete what is past RETENTION_DAYS, or its tenant's own retention.

    May be stopped at any time and run again; two at once do no harm.

    Args:
        now: the moment to judge by; default: the database's time.
        batch: rows of one transaction.
        max_seconds: stop after the batch that passes it; None = run until done.
        tell: called between batches with the counts so far.
    """
    alias = conf.current().DATABASE
    sweep = Sweep(alias, now or clock.db_now(alias), batch, retention(alias), _deadline(max_seconds), tell)
    for step in _STEPS:
        step(sweep)
    if sweep.counts.total():
        audit.record(operator("system", "prune"), "retention.pruned", details=dict(sweep.counts))
    return Pruned(**sweep.counts, finished=not sweep.cut_short)


def _deadline(max_seconds: float | None) -> float | None:
    return None if max_seconds is None else time.monotonic() + max_seconds
