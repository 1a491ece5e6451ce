"""Hints: what a wake says. They may be lost, doubled or merged; rows are the truth."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

MAX_WAITING = 10_000
WAKE_SIZE = 100


@dataclass(slots=True)
class Hints:
    """Wakes not yet published, merged: one fan-out, endpoints to look at now, later, or in the slow queue."""

    fan_out: bool = False
    endpoint_ids: dict[int, None] = field(default_factory=dict)
    later: dict[int, float] = field(default_factory=dict)
    slow: dict[int, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.fan_out or bool(self.endpoint_ids) or bool(self.later) or bool(self.slow)

    def add(
        self,
        *,
        fan_out: bool = False,
        endpoint_ids: Iterable[int] = (),
        later: Mapping[int, float] | None = None,
        slow: Iterable[int] = (),
    ) -> None:
        """Merge more hints; above MAX_WAITING they are dropped, and the tick finds what they meant."""
        self.fan_out = self.fan_out or fan_out
        if len(self.endpoint_ids) < MAX_WAITING:
            self.endpoint_ids.update(dict.fromkeys(endpoint_ids))
        if len(self.slow) < MAX_WAITING:
            self.slow.update(dict.fromkeys(slow))
        if later and len(self.later) < MAX_WAITING:
            for endpoint_id, seconds in later.items():
                self.later[endpoint_id] = min(seconds, self.later.get(endpoint_id, seconds))

    def merge(self, other: "Hints") -> None:
        """Take over another's hints."""
        self.add(fan_out=other.fan_out, endpoint_ids=other.endpoint_ids, later=other.later, slow=other.slow)

    def wakes(self) -> Iterator[tuple[list[int], float | None]]:
        """Yield the endpoints of each message and its countdown in seconds."""
        yield from ((chunk, None) for chunk in _chunks(list(self.endpoint_ids)))
        by_wait: dict[float, list[int]] = {}
        for endpoint_id, seconds in self.later.items():
            # Never down: a wake that comes early finds nothing, and nobody sends another.
            by_wait.setdefault(max(0.1, math.ceil(seconds * 10) / 10), []).append(endpoint_id)
        for seconds, ids in by_wait.items():
            yield from ((chunk, seconds) for chunk in _chunks(ids))

    def slow_wakes(self) -> Iterator[list[int]]:
        """Yield the endpoints of each message for the slow queue."""
        yield from _chunks(list(self.slow))


def _chunks(ids: list[int]) -> Iterator[list[int]]:
    ids.sort()
    yield from (ids[start : start + WAKE_SIZE] for start in range(0, len(ids), WAKE_SIZE))
