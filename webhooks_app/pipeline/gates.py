"""The gates of a lease, as pure rules over what the locked rows say."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, chain, cycle, islice, pairwise
from typing import TypeVar

from ..core.breaker import Admission, BreakerFacts, admits
from ..core.health import SLOW_MS, SLOW_WINDOW
from ..core.policies import Policy
from ..core.rate import Rate

T = TypeVar("T")

# Half of the usual max_in_flight: a second process finds room, and sends while the first records.
BATCH = 50
BATCH_IN_ALL = 200
CAUTIOUS_WINDOW = SLOW_WINDOW + 1
# Live work may take 70 % of a grant, retries are sure of 20 %, bulk of 10 %; unused shares pass on.
SHARES = (7, 2, 1)
# So spread over any ten places, that who is cut short, for lack of tokens, is cut fairly.
ROUND = (0, 0, 1, 0, 0, 2, 0, 1, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One endpoint at the moment of a lease.

    `live` counts its leases that have not lapsed, a chain as one. `retention_days` are those of its tenant.
    `breaker` is None while it is closed; a probe that is out lapses at `probe_until`. `host` is named only
    where a limit of hosts is set.
    """

    endpoint_id: int
    public_id: str
    tenant_id: str | None
    partner_id: str | None
    enabled: bool
    deleted: bool
    held: bool
    hold_until: datetime | None
    window: int
    max_in_flight: int
    live: int
    starved: bool
    woken_until: datetime | None
    generation: int
    revision: int
    policy: Policy
    retention_days: int
    breaker: BreakerFacts | None = None
    probe_until: datetime | None = None
    rate: Rate | None = None
    tokens: float | None = None
    tokens_at: datetime | None = None
    latency_ms: int | None = None
    host: str | None = None

    def is_closed(self, now: datetime) -> bool:
        """Whether nothing may leave now: paused, suspended, silence asked for, or the breaker."""
        if self.held or (self.hold_until is not None and self.hold_until > now):
            return True
        return self.breaker is not None and self.admission(now) == "none"

    def admission(self, now: datetime) -> Admission:
        """Return what the breaker lets through."""
        if self.breaker is None:
            return "all"
        probing = self.probe_until is not None and self.probe_until >= now
        return admits(self.policy.breaker, self.breaker, now, probing=probing)

    def is_open(self, now: datetime) -> bool:
        """Whether something may leave now."""
        return self.enabled and not self.deleted and not self.is_closed(now)

    @property
    def free(self) -> int:
        """How many more requests the endpoint may have in flight."""
        return max(0, min(self.window, self.max_in_flight) - self.live)

    @property
    def cautious(self) -> bool:
        """Whether the endpoint is unknown or slow, so that it may use only half of a process's senders.

        Its window says so; where a small cap leaves that little to say, the time of its answers does.
        """
        if self.max_in_flight < CAUTIOUS_WINDOW and (self.latency_ms is None or self.is_slow):
            return True
        return min(self.window, self.max_in_flight) < min(CAUTIOUS_WINDOW, self.max_in_flight)

    @property
    def is_slow(self) -> bool:
        """Whether its answers, smoothed, take over a second; unknown endpoints are not slow."""
        return self.latency_ms is not None and self.latency_ms > SLOW_MS


@dataclass(slots=True)
class Room:
    """Free senders of a process: in all, for cautious endpoints, and for bulk work."""

    senders: int
    cautious: int
    bulk: int = BATCH_IN_ALL


def probe_size(endpoints: int) -> int:
    """Return how many deliveries of one endpoint a lease looks at, when it looks at so many endpoints."""
    return min(BATCH, max(4, BATCH_IN_ALL // max(1, endpoints)))


def share(size: int, by_priority: Sequence[Sequence[T]], turn: float) -> list[T]:
    """Pick at most `size` of the candidates (live, retry, bulk), each priority sure of its share.

    `turn` in [0, 1) says who gets the places that shares divide: taken at random, even those of an endpoint
    with a single place go round. Who takes only the first few of what is picked keeps the shares too.
    """
    if sum(map(bool, by_priority)) <= 1:
        return [item for items in by_priority for item in items[:size]]
    counts = _counts(size, [len(items) for items in by_priority], turn)
    picked = [iter(items[:count]) for items, count in zip(by_priority, counts, strict=True)]
    first = int(turn * len(ROUND))
    places = cycle((*ROUND[first:], *ROUND[:first]))
    drawn = chain.from_iterable(islice(picked[priority], 1) for priority in places)
    return list(islice(drawn, sum(counts)))


def _counts(size: int, lengths: Sequence[int], turn: float) -> list[int]:
    if sum(lengths) <= size:
        return list(lengths)
    weights = [weight if length else 0 for weight, length in zip(SHARES, lengths, strict=True)]
    edges = [int(turn + size * upto / sum(weights)) for upto in accumulate(weights, initial=0)]
    counts = [min(length, high - low) for length, (low, high) in zip(lengths, pairwise(edges), strict=True)]
    for priority, length in enumerate(lengths):
        counts[priority] += min(length - counts[priority], size - sum(counts))
    return counts


def take_turns(queues: Sequence[Sequence[T]], size: int) -> list[T]:
    """Pick at most `size` items, one of each queue in turn, so that no endpoint crowds out another."""
    picked: list[T] = []
    depth = 0
    longest = max(map(len, queues), default=0)
    while len(picked) < size and depth < longest:
        picked.extend(queue[depth] for queue in queues if depth < len(queue))
        depth += 1
    return picked[:size]
