"""Health of an endpoint: how many requests at once, and when lasting failure warns and disables."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from .attempt import AttemptResult
from .policies import AutoDisable, Policy

Health = Literal["success", "failure", "none"]
Pace = Literal["quick", "slow", "busy", "silent"]

# RFC 6585 §4
TOO_MANY = 429
FIRST_WINDOW = 4
SLOW_MS = 1000
# Just below the window from which an endpoint may use all senders of a process.
SLOW_WINDOW = 7

# An endpoint without a redirect for so long has begun anew when the next one comes.
REDIRECT_QUIET = timedelta(hours=24)

_PACES: tuple[Pace, ...] = ("quick", "slow", "busy", "silent")

_NEVER_OPENED = frozenset({"dns", "tls", "connect"})


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Failures in a row since the endpoint was last enabled, and when they happened.

    ``failing_from`` is where the clock towards disabling starts: the first failure, or the first of the
    present burst under a rule that looks at bursts.
    """

    consecutive: int = 0
    first_failure_at: datetime | None = None
    last_failure_at: datetime | None = None
    failing_from: datetime | None = None

    def after(self, health: Health, at: datetime, rule: AutoDisable | None) -> "HealthFacts":
        """Return the facts after one more outcome at ``at``. ``"none"`` changes nothing."""
        if health == "none":
            return self
        if health == "success":
            return HealthFacts()
        return HealthFacts(
            consecutive=self.consecutive + 1,
            first_failure_at=self.first_failure_at or at,
            last_failure_at=at if self.last_failure_at is None else max(at, self.last_failure_at),
            failing_from=self._failing_from(at, rule),
        )

    def _failing_from(self, at: datetime, rule: AutoDisable | None) -> datetime:
        start = self.failing_from or self.first_failure_at
        if start is None:
            return at
        last = self.last_failure_at or start
        if rule is None or rule.start_within is None or last - start >= timedelta(seconds=rule.start_span):
            return start
        return at if at - last > timedelta(seconds=rule.start_within) else start


def progress(rule: AutoDisable, facts: HealthFacts, now: datetime) -> float:
    """Return how far an endpoint is on its way to being disabled: from 0, and at 1 or more it is.

    The lesser of two shares: of the failures and of the time that the rule asks for. Both must be reached,
    so that neither a burst within minutes nor a rarely used endpoint is disabled.
    """
    start, last = facts.failing_from or facts.first_failure_at, facts.last_failure_at
    if start is None:
        return 0.0
    if rule.start_span and (last is None or last - start < timedelta(seconds=rule.start_span)):
        return 0.0
    failing = max(0.0, (now - start).total_seconds())
    return min(facts.consecutive / rule.failures, failing / rule.span if rule.span else 1.0)


def should_disable(policy: Policy, facts: HealthFacts, now: datetime) -> bool:
    """Whether an endpoint has failed so often and for so long that the policy disables it."""
    rule = policy.auto_disable
    return rule is not None and progress(rule, facts, now) >= 1.0


def warnings_due(policy: Policy, facts: HealthFacts, now: datetime) -> int:
    """Return how many of the policy's warnings are reached by now."""
    rule = policy.auto_disable
    if rule is None or not rule.warnings:
        return 0
    reached = progress(rule, facts, now)
    return sum(reached >= share for share in rule.warnings)


def begins_redirecting(
    warning: str, *, last_error: str, last_failure_at: datetime | None, at: datetime
) -> bool:
    """Return whether a redirect at ``at`` is the first of an episode, which is what people are warned of.

    It is not when the endpoint's ``warning`` says so already, nor when the failure before it
    (``last_error`` at ``last_failure_at``) was a redirect of the last REDIRECT_QUIET: a receiver that
    answers now with a redirect, now well, is one episode, however often it changes.
    """
    if warning == "redirect":
        return False
    return last_error != "redirect" or last_failure_at is None or at - last_failure_at >= REDIRECT_QUIET


def next_latency(old_ms: int | None, sample_ms: int) -> int:
    """Return the smoothed time of the answers in milliseconds: one fifth of it is the newest."""
    return sample_ms if old_ms is None else round(old_ms + (sample_ms - old_ms) / 5)


def pace_of(result: AttemptResult) -> Pace:
    """Return how the receiver kept us waiting: `silent` is a timeout of any phase, `slow` over a second.

    A 429 is `busy` however quickly it came: it says that there are too many requests.
    """
    if result.http_status == TOO_MANY:
        return "busy"
    if result.error == "timeout" or (result.error in _NEVER_OPENED and result.detail.endswith("timeout")):
        return "silent"
    return "slow" if result.duration_ms > SLOW_MS else "quick"


def worst(paces: Iterable[Pace]) -> Pace:
    """Return the pace that decides for a record; `quick` when there is none."""
    return max(paces, key=_PACES.index, default="quick")


def next_window(window: int, pace: Pace, cap: int) -> int:
    """Return how many requests may be open after a record.

    Twice as many after quick answers, half as many after silence or a 429. A receiver that answers, only
    slowly, does its work: it settles at SLOW_WINDOW, from above and from below. Stays from 1 to ``cap``
    (the endpoint's ``max_in_flight``), also when ``cap`` was lowered meanwhile.
    """
    wanted = window // 2 if pace in ("busy", "silent") else window * 2
    if pace == "slow":
        wanted = max(SLOW_WINDOW, window // 2) if window > SLOW_WINDOW else min(SLOW_WINDOW, window * 2)
    return max(1, min(wanted, cap))
