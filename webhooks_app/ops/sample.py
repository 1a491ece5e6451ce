"""A sample of an endpoint's newest attempts: how many succeed, how fast, and what goes wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from ..core.classify import OURS
from ..core.matching import NEVER_FANNED_OUT
from ..models import Attempt

SPAN = timedelta(hours=24)
AT_LEAST, AT_MOST = 100, 1_000
MAX_ERRORS = 10


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often an error code is in the sample, and when it was seen last."""

    code: str
    count: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of the attempts' durations in milliseconds (nearest rank); None without attempts."""

    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What AT_MOST of the newest attempts say: those of SPAN, or the newest AT_LEAST when these are fewer.

    Tests and pings are none of them. Faults of ours, such as a secret that does not open, are among
    ``errors``, but in neither ``success_rate`` (0 to 1; None without attempts) nor ``latency``.
    """

    attempts: int = 0
    since: datetime | None = None
    success_rate: float | None = None
    latency: Latency = Latency()
    errors: tuple[ErrorCount, ...] = ()


class _Row(NamedTuple):
    event_type: str
    error: str
    duration_ms: int
    created_at: datetime


def sample(alias: str, endpoint_id: int, now: datetime) -> Sample:
    """Return the sample of an endpoint; one query, along the index, of at most AT_MOST rows."""
    # A range, ordered by both columns: no other index has this order. With an equality, planners may prefer
    # the key, backwards over everybody's attempts, which takes long where the endpoint has rested.
    rows = Attempt.objects.using(alias).filter(endpoint_id__gte=endpoint_id, endpoint_id__lte=endpoint_id)
    rows = rows.order_by("-endpoint_id", "-id")
    found = (_Row(*row) for row in rows.values_list(*_Row._fields)[:AT_MOST])
    return summary(_chosen((row for row in found if row.event_type not in NEVER_FANNED_OUT), now))


def _chosen(rows: Iterable[_Row], now: datetime) -> list[_Row]:
    """Return those of the SPAN before `now`, filled up to AT_LEAST; `rows` begin with the newest."""
    return [row for place, row in enumerate(rows) if place < AT_LEAST or row.created_at > now - SPAN]


def summary(rows: Sequence[Any]) -> Sample:
    """Return what rows with error, duration_ms and created_at, the newest first, come to."""
    theirs = [row for row in rows if row.error not in OURS]
    if not rows:
        return Sample()
    succeeded = sum(not row.error for row in theirs)
    return Sample(
        attempts=len(rows),
        since=min(row.created_at for row in rows),
        success_rate=succeeded / len(theirs) if theirs else None,
        latency=_latency(sorted(row.duration_ms for row in theirs)),
        errors=_errors(rows),
    )


def _latency(durations: Sequence[int]) -> Latency:
    if not durations:
        return Latency()
    return Latency(*(durations[ceil(share * len(durations) / 100) - 1] for share in (50, 95, 99)))


def _errors(rows: Iterable[Any]) -> tuple[ErrorCount, ...]:
    found: dict[str, list[datetime]] = {}
    for row in rows:
        if row.error:
            found.setdefault(row.error, []).append(row.created_at)
    counts = (ErrorCount(code, len(moments), max(moments)) for code, moments in found.items())
    return tuple(sorted(counts, key=lambda each: (-each.count, each.code))[:MAX_ERRORS])
