"""Hints: what a wake says. They may be lost, doubled or merged; rows are the truth."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

MAX_WAITING = 10_000
WAKE_SIZE = 100
# Below it a countdown is exact: a rate limit without a burst would not be reached otherwise.
SHORT = 2.0


@dataclass(slots=True)
class Hints:
    """Wakes not yet published, merged: one fan-out, endpoints to look at now or later, recovery jobs.

    `slow` ones are for the queue of slow endpoints; `neglected` ones are to be served by whoever looks, even
    if they are slow, because nobody came after an earlier wake.
    """

    fan_out: bool = False
    endpoint_ids: dict[int, None] = field(default_factory=dict)
    later: dict[int, float] = field(default_factory=dict)
    slow: dict[int, None] = field(default_factory=dict)
    neglected: dict[int, None] = field(default_factory=dict)
    jobs: bool = False

    def __bool__(self) -> bool:
        return self.is_for_now or bool(self.later)

    @property
    def is_for_now(self) -> bool:
        """Whether something asks to be done at once."""
        return any((self.fan_out, self.endpoint_ids, self.slow, self.neglected, self.jobs))

    def add(
        self,
        *,
        fan_out: bool = False,
        endpoint_ids: Iterable[int] = (),
        later: Mapping[int, float] | None = None,
        slow: Iterable[int] = (),
        neglected: Iterable[int] = (),
        jobs: bool = False,
    ) -> None:
        """Merge more hints; above MAX_WAITING they are dropped, and the tick finds what they meant."""
        self.fan_out = self.fan_out or fan_out
        self.jobs = self.jobs or jobs
        if len(self.endpoint_ids) < MAX_WAITING:
            self.endpoint_ids.update(dict.fromkeys(endpoint_ids))
        if len(self.slow) + len(self.neglected) < MAX_WAITING:
            self.slow.update(dict.fromkeys(slow))
            self.neglected.update(dict.fromkeys(neglected))
        if later and len(self.later) < MAX_WAITING:
            for endpoint_id, seconds in later.items():
                self.later[endpoint_id] = min(seconds, self.later.get(endpoint_id, seconds))

    def merge(self, other: "Hints") -> None:
        """Take over another's hints."""
        self.add(
            fan_out=other.fan_out,
            endpoint_ids=other.endpoint_ids,
            later=other.later,
            slow=other.slow,
            neglected=other.neglected,
            jobs=other.jobs,
        )

    def wakes(self) -> Iterator[tuple[list[int], float | None]]:
        """Yield the endpoints of each message and its countdown in seconds."""
        yield from ((chunk, None) for chunk in _chunks(list(self.endpoint_ids)))
        by_wait: dict[float, list[int]] = {}
        for endpoint_id, seconds in self.later.items():
            by_wait.setdefault(_rounded(seconds), []).append(endpoint_id)
        for seconds, ids in by_wait.items():
            yield from ((chunk, seconds) for chunk in _chunks(ids))

    def slow_wakes(self) -> Iterator[tuple[list[int], bool]]:
        """Yield the endpoints of each message that serves slow ones, and whether theirs is the slow queue."""
        yield from ((chunk, True) for chunk in _chunks(list(self.slow)))
        yield from ((chunk, False) for chunk in _chunks(list(self.neglected)))


def _rounded(seconds: float) -> float:
    """Return a countdown that others can share: in hundredths of a second, from two seconds on in tenths.

    Never down: a wake that comes early finds nothing, and nobody sends another.
    """
    parts = 100 if seconds < SHORT else 10
    return max(1, math.ceil(seconds * parts)) / parts


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    ids.sort()
    yield from (ids[start : start + WAKE_SIZE] for start in range(0, len(ids), WAKE_SIZE))
