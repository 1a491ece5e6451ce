"""The whole policy on one screen: what follows from one attempt.

``decide`` composes the rules of the other modules and adds what is about their order:

- A failed attempt of the schedule moves ``step`` and gets the next wait, or ends the delivery. The end is
  ``failed_permanent`` for a final answer, ``exhausted`` when no wait is left or the next one leads past the
  policy's ``window``, ``window_exceeded`` when only a Retry-After leads past it, and ``expired`` when the
  next attempt would not start before the event's ``expires_at``, the end of its replay window or of the
  policy's ``time_to_live``. That is decided now, not when the attempt comes due: nothing can change it, and
  the consumer's list of dead deliveries is right at once. The error stays the one that was seen.
  ``event_unavailable`` is for bodies that are gone: ``dead_lettered``, like all that makes an attempt
  impossible, or ``expired`` when the end of the replay window took it. What holding (a breaker, a limit, a
  backlog) has used up is found by ``end_before_attempt`` when the attempt would leave.
- A ``manual`` attempt or a ``probe`` that fails changes neither state nor schedule, whatever the answer was:
  it was asked for beside them. One that succeeds delivers. A probe that could not be sent because there is
  nothing to send any more ends its delivery all the same.
- A ``test`` stands outside of all accounting: no health, no hold, no disable. Its schedule is one attempt.
- ``webhook-delivery: disable`` on a failure disables the endpoint and leaves the delivery to its schedule.
  If the endpoint is still disabled then, the delivery is dead-lettered; enabled before, it lives on.
- Faults of ours (``classify.OURS``) leave health alone. ``secret_unavailable`` and ``worker_lost`` use a
  step like any failure, so that neither can go on for ever.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from .attempt import AttemptResult
from .classify import ABORT, DISABLE, OURS, Verdict, control_of, verdict
from .health import TOO_MANY, Health
from .policies import Policy
from .retry import next_wait, parse_retry_after
from .states import (
    DEAD_LETTERED,
    DELIVERED,
    EXHAUSTED,
    EXPIRED,
    FAILED_PERMANENT,
    PENDING,
    WINDOW_EXCEEDED,
    State,
)

Trigger = Literal["schedule", "manual", "probe", "test"]
AttemptStatus = Literal["succeeded", "failed", "dead"]

# 429: RFC 6585 §4, 503: RFC 9110 §15.6.4. Both speak of the whole receiver, not of one message.
HOLDING = frozenset({TOO_MANY, 503})
# Seconds of silence after a 429 that asks for none: its receiver is well, and has had too much.
BREATH = 1.0

_END_OF_ERROR: dict[str, State] = {
    "event_unavailable": DEAD_LETTERED,
    "endpoint_disabled": DEAD_LETTERED,
    "endpoint_deleted": DEAD_LETTERED,
    "payload_too_large": DEAD_LETTERED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a delivery before its attempt is judged. Times are aware.

    ``attempts`` counts the requests made before this one; ``step`` is the position in ``policy.waits``;
    ``deferrals`` counts the waits that cost no step. ``recorded_at`` is when the schedule began: when the
    event was recorded, or replayed. ``expires_at`` is the event's own. ``state`` is the delivery's, returned
    untouched where nothing follows from the attempt.
    """

    trigger: Trigger
    attempts: int
    step: int
    deferrals: int
    recorded_at: datetime
    expires_at: datetime | None
    replay_until: datetime | None
    state: str = PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What follows for the delivery, its attempt and its endpoint.

    ``state``, ``step`` and ``deferrals`` are the delivery's new values. ``due_at`` is when its schedule goes
    on: ``None`` for an ended one, and after an attempt beside the schedule. ``attempt_status`` is ``dead``
    when this failure ended the delivery. ``hold_until``: nothing else goes to the endpoint before then.
    ``disable``: why it is to be disabled, ``gone`` (a 410) or ``consumer`` (asked for), else ``None``.
    """

    state: str
    attempt_status: AttemptStatus
    error: str
    due_at: datetime | None
    step: int
    deferrals: int
    hold_until: datetime | None
    disable: str | None
    health: Health


@dataclass(frozen=True, slots=True)
class _Course:
    """How the delivery goes on."""

    state: str
    status: AttemptStatus
    due_at: datetime | None
    step: int
    deferrals: int


def decide(policy: Policy, facts: Facts, result: AttemptResult, *, now: datetime, jitter: float) -> Outcome:
    """Return what follows from ``result``, received at ``now`` (aware), under ``policy``.

    ``jitter`` in [0, 1) spreads the next wait. Pure, and total: every result has an outcome.
    """
    asked = _asked_wait(policy, result, now)
    control = control_of(result, policy)
    course = _course(policy, facts, result, now=now, jitter=jitter, asked=asked)
    counted = facts.trigger != "test"
    return Outcome(
        state=course.state,
        attempt_status=course.status,
        error="aborted_by_consumer" if control == ABORT else result.error,
        due_at=course.due_at,
        step=course.step,
        deferrals=course.deferrals,
        hold_until=_hold_until(result, now, asked) if counted else None,
        disable=_disable(policy, result, control) if counted else None,
        health=_health(result) if counted else "none",
    )


def end_before_attempt(
    policy: Policy, *, started: float, expires: float | None, replay_until: float, now: float
) -> State | None:
    """Return how a delivery ends whose attempt would start at ``now``, ``None`` when it may start.

    ``expired`` when the event is worth nothing any more or may not be replayed any more,
    ``window_exceeded`` when waiting has used up the policy's time. All times are seconds since 1970;
    ``started`` is when the schedule began.
    """
    life = policy.time_to_live
    if now >= replay_until or (expires is not None and now >= expires):
        return EXPIRED
    if life is not None and now >= started + life:
        return EXPIRED
    if policy.window is not None and now >= started + policy.window:
        return WINDOW_EXCEEDED
    return None


def _course(
    policy: Policy,
    facts: Facts,
    result: AttemptResult,
    *,
    now: datetime,
    jitter: float,
    asked: float | None,
) -> _Course:
    judged = verdict(result, policy)
    if judged is Verdict.SUCCESS:
        return _Course(DELIVERED, "succeeded", None, facts.step, facts.deferrals)
    if facts.trigger == "test":
        return _Course(EXHAUSTED, "failed", None, facts.step, facts.deferrals)
    if facts.trigger == "probe" and facts.state == PENDING and result.error in _END_OF_ERROR:
        return _dead(facts, _final(facts, result, now))
    if facts.trigger != "schedule":
        return _Course(facts.state, "failed", None, facts.step, facts.deferrals)
    if judged is Verdict.PERMANENT:
        return _dead(facts, _final(facts, result, now))
    return _retry(policy, facts, now=now, wait=next_wait(policy, facts.step, jitter), asked=asked)


def _final(facts: Facts, result: AttemptResult, now: datetime) -> State:
    is_over = facts.replay_until is not None and now >= facts.replay_until
    if result.error == "event_unavailable" and is_over:
        return EXPIRED
    return _END_OF_ERROR.get(result.error, FAILED_PERMANENT)


def _retry(
    policy: Policy, facts: Facts, *, now: datetime, wait: float | None, asked: float | None
) -> _Course:
    step, deferrals = facts.step + 1, facts.deferrals
    if asked is not None and deferrals < policy.free_deferrals:
        step, deferrals = facts.step, deferrals + 1
    elif wait is None:
        return _dead(facts, EXHAUSTED)
    due_at = now + timedelta(seconds=max(wait or 0.0, asked or 0.0))
    if any(limit is not None and due_at >= limit for limit in _ends_of_life(policy, facts)):
        return _dead(facts, EXPIRED)
    end = None if policy.window is None else facts.recorded_at + timedelta(seconds=policy.window)
    if end is not None and due_at >= end:
        by_schedule = wait is not None and now + timedelta(seconds=wait) >= end
        return _dead(facts, EXHAUSTED if by_schedule else WINDOW_EXCEEDED)
    return _Course(PENDING, "failed", due_at, step, deferrals)


def _ends_of_life(policy: Policy, facts: Facts) -> tuple[datetime | None, ...]:
    own = None if policy.time_to_live is None else facts.recorded_at + timedelta(seconds=policy.time_to_live)
    return facts.expires_at, facts.replay_until, own


def _dead(facts: Facts, state: State) -> _Course:
    return _Course(state, "dead", None, facts.step, facts.deferrals)


def _asked_wait(policy: Policy, result: AttemptResult, now: datetime) -> float | None:
    """Return the capped Retry-After in seconds, ``None`` when it asks for nothing."""
    if result.ok or result.http_status not in policy.retry_after_on:
        return None
    seconds = parse_retry_after(result.header("retry-after"), now)
    return min(seconds, policy.max_wait) if seconds else None


def _hold_until(result: AttemptResult, now: datetime, asked: float | None) -> datetime | None:
    least = BREATH if result.http_status == TOO_MANY else None
    if result.http_status not in HOLDING or (asked or least) is None:
        return None
    return now + timedelta(seconds=max(asked or 0.0, least or 0.0))


def _disable(policy: Policy, result: AttemptResult, control: str | None) -> str | None:
    if policy.gone_disables and result.error == "status_410":
        return "gone"
    return "consumer" if control == DISABLE else None


def _health(result: AttemptResult) -> Health:
    if result.ok:
        return "success"
    return "none" if result.error in OURS else "failure"
