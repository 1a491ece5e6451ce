"""Health of an endpoint: how many requests at once, and when lasting failure disables it."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from .attempt import AttemptResult
from .policies import Policy

Health = Literal["success", "failure", "none"]

FIRST_WINDOW = 4
SLOW_MS = 1000

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


def is_slow(result: AttemptResult) -> bool:
    """Whether the receiver held a connection for over a second or let a timeout (of any phase) pass."""
    if result.duration_ms > SLOW_MS or result.error == "timeout":
        return True
    return result.error in _NEVER_OPENED and result.detail.endswith("timeout")


def next_window(window: int, slow: bool, cap: int) -> int:
    """Return how many requests may be open after a record: half as many when it was slow, else twice.

    Stays from 1 to ``cap`` (the endpoint's ``max_in_flight``), also when ``cap`` was lowered meanwhile.
    """
    wanted = window // 2 if slow else window * 2
    return max(1, min(wanted, cap))
