"""Wakes of a fan-out or a job: a busy endpoint's are spaced, so that they do not fill the queue."""

import time
from collections.abc import Iterable
from datetime import datetime

from . import announce

GAP = 0.5


def is_next_wake(last: datetime | None, now: datetime | None) -> bool:
    """Whether one of two wakes a second lies between two moments; None: there was none, or is none yet."""
    return last is None or now is None or last.timestamp() // GAP != now.timestamp() // GAP


class SpacedWakes:
    """Wakes an endpoint at most every half second, and does not forget the last time."""

    def __init__(self) -> None:
        self._woken: dict[int, float] = {}
        self._owed: set[int] = set()

    def add(self, endpoint_ids: Iterable[int]) -> None:
        """Wake these endpoints, now or half a second after their last wake, if this is called again then."""
        now = time.monotonic()
        self._owed.update(endpoint_ids)
        self._wake({key for key in self._owed if now - self._woken.get(key, -GAP) >= GAP}, now)

    def settle(self) -> None:
        """Wake those that are still owed a wake."""
        self._wake(set(self._owed), time.monotonic())

    def _wake(self, endpoint_ids: set[int], now: float) -> None:
        if endpoint_ids:
            self._owed -= endpoint_ids
            self._woken.update(dict.fromkeys(endpoint_ids, now))
            announce.wake(endpoint_ids)
