"""New ids: the clock and randomness that `core.ids` does without."""

import os
import threading
import time
import uuid

from ulid import PureRandomPolicy, ULIDGenerator

from .core.ids import format_id


class _Sequence:
    """Ids that rise within this process, also within one millisecond and when the clock steps back.

    The library reads the clock outside its lock, so two threads could be served in the wrong order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._millis = 0
        self._ulids = ULIDGenerator()

    def next(self) -> int:
        with self._lock:
            self._millis = max(self._millis, time.time_ns() // 1_000_000)
            return int.from_bytes(self._ulids.generate(self._millis).bytes, "big")


_sequence = _Sequence()
_random = ULIDGenerator(policy=PureRandomPolicy())


def _start_anew() -> None:
    """Forget the parent's last id and locks: a child that counted on from it would repeat its ids."""
    global _sequence, _random
    _sequence = _Sequence()
    _random = ULIDGenerator(policy=PureRandomPolicy())


os.register_at_fork(after_in_child=_start_anew)


def new_ulid_int() -> int:
    """Return a new 128-bit ULID: unique, and above every earlier one of this process."""
    return _sequence.next()


def new_id(prefix: str) -> str:
    """Return a new public id. Raises ValueError for a prefix that is not in `core.ids.PREFIXES`."""
    return format_id(prefix, new_ulid_int())


def new_token() -> uuid.UUID:
    """Return a lease token: 48 bits of time, 80 fresh random bits.

    Not monotonic on purpose: `attempt_id` adds delivery keys to the random part, so two tokens that
    follow each other by one would give two attempts the same id.
    """
    return uuid.UUID(bytes=_random.generate().bytes)
