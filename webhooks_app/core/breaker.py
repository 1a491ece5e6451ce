"""The circuit breaker of an endpoint: what it lets through, and what moves it.

``closed`` lets everything through until too many attempts in a row have failed. ``open`` holds deliveries
back; now and then it lets a round of probes through. ``half_open`` tries again: one failure opens it, enough
successes close it. Under a policy whose breaker becomes half-open by time alone (``probes_to_half_open`` is
0), what goes out while it is half-open are the probes; under the others, probes make it half-open, and then
live deliveries decide.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from .health import Health
from .policies import Breaker

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"

Admission = Literal["all", "probe", "none"]


@dataclass(frozen=True, slots=True)
class BreakerFacts:
    """Where a breaker stands.

    ``at`` is its last change of state and ``error`` the code of the failure that opened it. Where time alone
    half-opens it, every round of probes does so: that is part of being open, and ``at`` stays that of the
    opening. ``successes`` are in a row, in the present state. No probe before ``probe_at``.
    """

    state: str = CLOSED
    at: datetime | None = None
    error: str = ""
    successes: int = 0
    probe_at: datetime | None = None


def admits(breaker: Breaker | None, facts: BreakerFacts, now: datetime, *, probing: bool) -> Admission:
    """Return what may go to the endpoint now: everything, one round of probes, or nothing.

    ``probing``: a round of probes is out, and has not lapsed.
    """
    if breaker is None or facts.state == CLOSED:
        return "all"
    if facts.state == HALF_OPEN and breaker.probes_to_half_open:
        return "all"
    early = facts.probe_at is not None and now < facts.probe_at
    return "none" if probing or early else "probe"


def begin_probe(breaker: Breaker, facts: BreakerFacts, now: datetime) -> BreakerFacts:
    """Return the facts once a round of probes is taken; the caller writes them together with its lease.

    The next round waits for ``probe_seconds`` even when this one never reports, or meets faults of ours.
    """
    by_time = breaker.probes_to_half_open == 0
    if facts.state == CLOSED or (facts.state == HALF_OPEN and not by_time):
        return facts
    next_at = _later(now, breaker.probe_seconds)
    if facts.state == OPEN and by_time:
        return BreakerFacts(HALF_OPEN, facts.at, facts.error, probe_at=next_at)
    return replace(facts, probe_at=next_at)


def due_again(breaker: Breaker, at: datetime, *, final: bool) -> datetime:
    """Return when a delivery is due again that failed as a probe at ``at``.

    It stands back until others, or pings, could close the breaker: what its receiver cannot take must not be
    all that it is asked with, for no probe moves the schedule that would end it. After a ``final`` answer it
    stands back for longer.
    """
    rounds = breaker.probes_to_half_open + (4 if final else 2)
    return _later(at, rounds * max(breaker.open_seconds, breaker.probe_seconds))


def after(
    breaker: Breaker | None,
    facts: BreakerFacts,
    *,
    health: Health,
    probe: bool,
    consecutive: int,
    error: str,
    at: datetime,
) -> BreakerFacts:
    """Return the facts after one outcome.

    Args:
        health: of the outcome; ``"none"`` moves nothing.
        probe: whether it was a probe of the present round.
        consecutive: failures in a row, this outcome included.
        error: its code, kept as the reason when it opens the breaker.
        at: when it came in.
    """
    if health == "none":
        return facts
    if breaker is None:
        # It was taken out of the policy while it was open.
        return facts if facts.state == CLOSED else BreakerFacts(CLOSED, at)
    if facts.state == CLOSED:
        tripped = health == "failure" and consecutive >= breaker.failures
        return _opened(breaker, error, at) if tripped else facts
    by_time = breaker.probes_to_half_open == 0
    if not probe and (facts.state == OPEN or by_time):
        return facts
    if facts.state == OPEN:
        return _probed(breaker, facts, health, at)
    if health == "failure":
        again = _opened(breaker, error, at)
        return replace(again, at=facts.at) if by_time else again
    return _tried(breaker, facts, at)


def _opened(breaker: Breaker, error: str, at: datetime) -> BreakerFacts:
    return BreakerFacts(OPEN, at, error, probe_at=_later(at, breaker.open_seconds))


def _probed(breaker: Breaker, facts: BreakerFacts, health: Health, at: datetime) -> BreakerFacts:
    """Return an open breaker's facts after a probe. Where time alone decides, a success comes too late."""
    if breaker.probes_to_half_open == 0:
        if health == "success":
            return facts
        return replace(facts, probe_at=_later(at, breaker.open_seconds))
    if health == "failure":
        return replace(facts, successes=0, probe_at=_later(at, breaker.probe_seconds))
    successes = facts.successes + 1
    if successes >= breaker.probes_to_half_open:
        return BreakerFacts(HALF_OPEN, at, facts.error)
    return replace(facts, successes=successes, probe_at=_later(at, breaker.probe_seconds))


def _tried(breaker: Breaker, facts: BreakerFacts, at: datetime) -> BreakerFacts:
    successes = facts.successes + 1
    if successes >= breaker.successes_to_close:
        return BreakerFacts(CLOSED, at)
    return replace(facts, successes=successes, probe_at=at if breaker.probes_to_half_open == 0 else None)


def _later(at: datetime, seconds: float) -> datetime:
    return at + timedelta(seconds=seconds)
