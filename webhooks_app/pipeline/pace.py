"""The pace of bulk work: beside live work it goes in small steps with rests, alone as fast as it can."""

from .gates import BATCH_IN_ALL

# Seconds. Whoever saw a new event so lately expects another one.
LIVE_FOR = 10.0
# So many bulk deliveries at once of a process beside live work.
AT_ONCE = 10
# How many times as long as a step took the rest after it is: of sending, and of making things due.
SENDING = 3.0
QUEUEING = 2.5
# Seconds.
LONGEST_REST = 0.2


class Pace:
    """What one process has seen of live work. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._live_until = 0.0

    def saw_live(self, now: float) -> None:
        """Note that there was live work."""
        self._live_until = now + LIVE_FOR

    def most(self, now: float, *, in_rounds: bool) -> int:
        """Return how many bulk deliveries a lease may take; beside live work only those of the rounds do."""
        if not self.is_beside_live(now):
            return BATCH_IN_ALL
        return AT_ONCE if in_rounds else 0

    def is_beside_live(self, now: float) -> bool:
        """Return whether live work is to be expected."""
        return now < self._live_until

    def rest(self, took: float, now: float, *, times: float = SENDING) -> float:
        """Return for how many seconds to rest after a step that took so many: so many times as long."""
        return min(LONGEST_REST, times * took) if self.is_beside_live(now) else 0.0


_pace = Pace()


def pace() -> Pace:
    """Return the process's pace."""
    return _pace


def reset() -> None:
    """Forget what was seen."""
    global _pace
    _pace = Pace()
