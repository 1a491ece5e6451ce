"""Rate limits in a lease: token buckets of endpoints (in their state rows), tenants and target hosts.

Whoever claims deliveries takes their tokens in the same transaction; what is released unattempted gives them
back. The buckets of tenants and hosts are rows of their own, locked by key after the state rows.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from json import loads
from typing import Any

from ..conf import current
from ..core.rate import Rate, RateError, available, parse_rate, wait_for_one
from .gates import Gate
from .transactions import Tx
from .work import Job, Unit

# Seconds of a rate that a wake takes in one go: a hundred a second need no hundred wakes.
GATHERING = 0.1


@lru_cache(maxsize=4096)
def resolve_rate(text: str) -> Rate | None:
    """Return the limit that a row holds (JSON text); None for one that no action writes."""
    try:
        return parse_rate(loads(text))
    except (RateError, ValueError):
        return None


# RFC 3986 §3.2: the authority ends at "/", "?" or "#"; a literal IPv6 address stands in brackets.
_HOST = re.compile(r"^[^:]*://(?:[^/?#]*@)?(\[[^\]/?#]*\]|[^:/?#]*)")


def host_of(url: str) -> str:
    """Return the host of a stored URL, in lower case."""
    match = _HOST.match(url)
    return match[1].lower().rstrip(".") if match else ""


@dataclass(slots=True)
class Bucket:
    """The tokens there are `at` the present moment, how many were taken, and who waits for the next ones."""

    rate: Rate
    tokens: float
    at: datetime
    taken: int = 0
    waiting: float = 0.0

    @property
    def left(self) -> int:
        """Whole tokens left."""
        return int(self.tokens + 1e-9) - self.taken

    def wait(self) -> float:
        """Return the seconds until there are tokens for one more who waits; they gather for a moment."""
        wanted = max(1.0, min(self.rate.burst, self.rate.per_second * GATHERING))
        seconds = wait_for_one(self.rate, self.tokens - self.taken - self.waiting - wanted + 1.0)
        self.waiting += wanted
        return seconds


def _bucket(rate: Rate, tokens: float | None, since: datetime | None, now: datetime) -> Bucket:
    """Return a bucket as full as it is now.

    Who waited for its lock may come with an earlier moment than the one before: time never goes back, or what
    flowed in meanwhile would flow in twice.
    """
    return Bucket(rate, available(rate, tokens, since, now), now if since is None else max(since, now))


@dataclass(slots=True)
class Buckets:
    """Every limit that concerns the endpoints of a lease; empty when there is none."""

    own: dict[int, Bucket] = field(default_factory=dict)
    shared: dict[str, Bucket] = field(default_factory=dict)
    keys: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.own) or bool(self.shared)

    def take(self, unit: Unit) -> Unit:
        """Return as much of the unit as there are tokens for, and take them."""
        mine = self._of(unit[0].endpoint_id)
        size = min((bucket.left for bucket in mine), default=len(unit))
        taken = unit[: max(0, size)]
        for bucket in mine:
            bucket.taken += len(taken)
        return taken

    def put_back(self, unit: Unit) -> None:
        """Give back what was taken for a unit that is not claimed after all."""
        for bucket in self._of(unit[0].endpoint_id):
            bucket.taken -= len(unit)

    def wait(self, endpoint_id: int) -> float:
        """Return the seconds until the endpoint may have one more token of each of its buckets.

        Asked once for each endpoint: those who wait for the same bucket get its next tokens one by one.
        """
        return max((bucket.wait() for bucket in self._of(endpoint_id)), default=0.0)

    def _of(self, endpoint_id: int) -> list[Bucket]:
        mine = [self.shared[key] for key in self.keys.get(endpoint_id, ())]
        return [*mine, self.own[endpoint_id]] if endpoint_id in self.own else mine


def read_buckets(tx: Tx, gates: Iterable[Gate], now: datetime) -> Buckets:
    """Read the buckets of these endpoints, as full as they are now; lock those that are shared."""
    buckets = Buckets()
    limits: dict[str, Rate] = {}
    for gate in gates:
        if gate.rate is not None:
            buckets.own[gate.endpoint_id] = _bucket(gate.rate, gate.tokens, gate.tokens_at, now)
        if mine := _limits(gate):
            buckets.keys[gate.endpoint_id] = tuple(mine)
            limits.update(mine)
    if limits:
        buckets.shared = _lock(tx, limits, now)
    return buckets


def _limits(gate: Gate) -> dict[str, Rate]:
    settings = current()
    limits: dict[str, Rate] = {}
    if settings.TENANT_RATE_LIMIT is not None and gate.tenant_id is not None:
        limits[f"tenant:{gate.tenant_id}"] = settings.TENANT_RATE_LIMIT
    if settings.HOST_RATE_LIMIT is not None and gate.host:
        limits[f"host:{gate.host}"] = settings.HOST_RATE_LIMIT
    return limits


_LOCK = "SELECT key, tokens, updated_at FROM webhooks_app_ratebucket WHERE {} ORDER BY key"
_TYPES = {"key": "text", "tokens": "double precision", "updated_at": "timestamptz"}


def _lock(tx: Tx, limits: Mapping[str, Rate], now: datetime) -> dict[str, Bucket]:
    keys, moment = sorted(limits), tx.dialect.time(now)
    tx.insert(
        "webhooks_app_ratebucket",
        _TYPES,
        [(key, limits[key].burst, moment) for key in keys],
        tail="ON CONFLICT (key) DO NOTHING",
    )
    condition, values = tx.dialect.among("key", keys)
    # Waiting even where state rows are skipped: a bucket is held for the length of a lease only.
    tx.execute(f"{_LOCK.format(condition)} {tx.dialect.lock_row}", values)
    found = {key: (tokens, tx.dialect.moment(at)) for key, tokens, at in tx.rows()}
    # One that is pruned in between had been full for long.
    return {key: _bucket(limits[key], *found.get(key, (None, None)), now) for key in keys}


def save_buckets(tx: Tx, buckets: Buckets) -> None:
    """Write back the buckets that tokens were taken from."""
    own = "webhooks_app_endpointstate SET tokens = v.left_over, tokens_at = v.moment"
    _save(tx, own, buckets.own, column="endpoint_id", kind="bigint")
    shared = "webhooks_app_ratebucket SET tokens = v.left_over, updated_at = v.moment"
    _save(tx, shared, buckets.shared, column="key", kind="text")


def _save(tx: Tx, change: str, buckets: Mapping[Any, Bucket], *, column: str, kind: str) -> None:
    time = tx.dialect.time
    rows = [(key, each.tokens - each.taken, time(each.at)) for key, each in buckets.items() if each.taken]
    if rows:
        types = {"name": kind, "left_over": "double precision", "moment": "timestamptz"}
        item, values = tx.dialect.values(types, rows)
        tx.execute(f"UPDATE {change} FROM {item} WHERE {column} = v.name", values)


def give_back(tx: Tx, gates: Mapping[int, Gate], released: Sequence[Job]) -> None:
    """Return the tokens of jobs that were claimed and not attempted; buckets never exceed their burst."""
    own: dict[int, int] = {}
    shared: dict[str, int] = {}
    for job in released:
        gate = gates[job.endpoint_id]
        if gate.rate is not None:
            own[job.endpoint_id] = own.get(job.endpoint_id, 0) + 1
        for key in _limits(gate):
            shared[key] = shared.get(key, 0) + 1
    if own:
        _add(
            tx,
            "webhooks_app_endpointstate SET tokens = tokens + v.more",
            own,
            column="endpoint_id",
            kind="bigint",
        )
    if shared:
        condition, values = tx.dialect.among("key", sorted(shared))
        tx.execute(f"{_LOCK.format(condition)} {tx.dialect.lock_row}", values)
        _add(tx, "webhooks_app_ratebucket SET tokens = tokens + v.more", shared, column="key", kind="text")


def _add(tx: Tx, change: str, counts: Mapping[Any, int], *, column: str, kind: str) -> None:
    item, values = tx.dialect.values({"name": kind, "more": "int"}, sorted(counts.items()))
    tx.execute(f"UPDATE {change} FROM {item} WHERE {column} = v.name", values)
