"""Health of an endpoint: how many requests at once, and when lasting failure disables it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from .attempt import AttemptResult
from .policies import Policy

Health = Literal["success", "failure", "none"]
Pace = Literal["quick", "slow", "silent"]

FIRST_WINDOW = 4
SLOW_MS = 1000
# Just below the window from which an endpoint may use all senders of a process.
SLOW_WINDOW = 7

_PACES: tuple[Pace, ...] = ("quick", "slow", "silent")

_NEVER_OPENED = frozenset({"dns", "tls", "connect"})


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Failures in a row since the endpoint was last enabled, and when the first of them happened."""

    consecutive: int = 0
    first_failure_at: datetime | None = None

    def after(self, health: Health, at: datetime) -> "HealthFacts":
        """Return the facts after one more outcome at ``at``. ``"none"`` changes nothing."""
        if health == "none":
            return self
        if health == "success":
            return HealthFacts()
        first = self.first_failure_at or at
        return replace(self, consecutive=self.consecutive + 1, first_failure_at=first)


def should_disable(
    policy: Policy, consecutive: int, first_failure_at: datetime | None, now: datetime
) -> bool:
    """Whether an endpoint with this many failures in a row has failed for too long.

    Both must hold: as many failures as the policy says, and the first of them old enough, so that neither
    a burst within minutes nor a rarely used endpoint is disabled.
    """
    rule = policy.auto_disable
    if rule is None or first_failure_at is None or consecutive < rule.failures:
        return False
    return now - first_failure_at >= timedelta(seconds=rule.span)


def pace_of(result: AttemptResult) -> Pace:
    """Return how the receiver kept us waiting: `silent` is a timeout of any phase, `slow` over a second."""
    if result.error == "timeout" or (result.error in _NEVER_OPENED and result.detail.endswith("timeout")):
        return "silent"
    return "slow" if result.duration_ms > SLOW_MS else "quick"


def worst(paces: Iterable[Pace]) -> Pace:
    """Return the pace that decides for a record; `quick` when there is none."""
    return max(paces, key=_PACES.index, default="quick")


def next_window(window: int, pace: Pace, cap: int) -> int:
    """Return how many requests may be open after a record.

    Twice as many after quick answers, half as many after silence. A receiver that answers, only slowly, does
    its work: it settles at SLOW_WINDOW, from above and from below. Stays from 1 to ``cap`` (the endpoint's
    ``max_in_flight``), also when ``cap`` was lowered meanwhile.
    """
    wanted = window // 2 if pace == "silent" else window * 2
    if pace == "slow":
        wanted = max(SLOW_WINDOW, window // 2) if window > SLOW_WINDOW else min(SLOW_WINDOW, window * 2)
    return max(1, min(wanted, cap))
