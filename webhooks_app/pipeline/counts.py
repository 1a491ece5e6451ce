"""Counters of an endpoint, in its state row: what became of its deliveries, and how fast it answers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..core.health import next_latency
from ..core.states import DEAD
from .judge import Judged
from .transactions import Tx
from .work import Ended

_TYPES = {
    "key": "bigint",
    "good": "int",
    "again": "int",
    "bad": "int",
    "dead": "int",
    "latency": "int",
    "success": "timestamptz",
}
_COUNT = """UPDATE webhooks_app_endpointstate SET delivered = delivered + v.good,
retried = retried + v.again, failed = failed + v.bad, dead_lettered = dead_lettered + v.dead,
latency_ms = v.latency, last_success_at = COALESCE(v.success, last_success_at)
FROM {} WHERE endpoint_id = v.key"""


def count_outcomes(
    tx: Tx, outcomes: Mapping[int, Sequence[Judged]], latencies: Mapping[int, int | None], now: datetime
) -> None:
    """Add the outcomes of each endpoint to its counters; the state rows are locked.

    `latencies` are the smoothed times so far.
    """
    if not outcomes:
        return
    moment = tx.dialect.time(now)
    rows = [_row(key, outcomes[key], latencies.get(key), moment) for key in sorted(outcomes)]
    item, values = tx.dialect.values(_TYPES, rows)
    tx.execute(_COUNT.format(item), values)


def _row(key: int, outcomes: Sequence[Judged], latency: int | None, moment: Any) -> tuple[Any, ...]:
    delivered = retried = failed = dead = 0
    for each in outcomes:
        if each.result.http_status is not None or each.pace == "silent":
            latency = next_latency(latency, each.result.duration_ms)
        if each.job.is_ping:
            continue
        if each.succeeded:
            delivered += 1
        elif each.ends:
            failed += 1
            dead += each.outcome.state in DEAD
        elif each.job.trigger == "schedule":
            retried += 1
    return key, delivered, retried, failed, dead, latency, moment if delivered else None


def count_dead(tx: Tx, ended: Iterable[Ended]) -> None:
    """Count deliveries that ended without a request; the state rows are locked."""
    counts: dict[int, int] = {}
    for each in ended:
        counts[each.endpoint_id] = counts.get(each.endpoint_id, 0) + 1
    if counts:
        item, values = tx.dialect.values({"key": "bigint", "more": "int"}, sorted(counts.items()))
        tx.execute(
            f"""UPDATE webhooks_app_endpointstate SET dead_lettered = dead_lettered + v.more
            FROM {item} WHERE endpoint_id = v.key""",
            values,
        )
