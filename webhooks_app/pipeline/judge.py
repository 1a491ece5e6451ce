"""Turns what came back into what follows: `core.decide` with the facts of a claimed delivery."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ..core.attempt import AttemptResult
from ..core.breaker import due_again
from ..core.classify import Verdict, verdict
from ..core.decide import Facts, Outcome, decide
from ..core.health import Pace, pace_of
from ..core.ids import delivery_id
from ..core.retry import jitter_of
from ..core.states import PENDING
from .gates import Gate
from .retention import leaves_until
from .work import Done, Job

# The last second of the last year; what lies beyond it is no datetime.
LAST = 253_402_300_799.0


@dataclass(slots=True)
class Judged:
    """A finished job with its outcome, ready to be recorded.

    `due_at` is when its delivery is to come due next, None where that stays as it was.
    """

    job: Job
    done: Done
    outcome: Outcome
    result: AttemptResult
    pace: Pace
    due_at: datetime | None = None

    @property
    def ends(self) -> bool:
        """Whether this attempt ended its delivery."""
        by_itself = self.job.trigger == "schedule" or (self.is_probe and not self.job.is_ping)
        return by_itself and self.outcome.state != PENDING

    @property
    def succeeded(self) -> bool:
        """Whether the receiver took it."""
        return self.outcome.attempt_status == "succeeded"

    @property
    def is_probe(self) -> bool:
        """Whether its outcome may move an open breaker."""
        return self.job.trigger == "probe"


def judge(done: Done, gate: Gate, *, chance: float) -> Judged:
    """Judge one finished job under its endpoint's policy; `chance` in [0, 1) is for its jitter."""
    if done.sent is None:
        raise ValueError("a released job has no outcome")
    job, result, policy = done.job, done.sent.result, gate.policy
    facts = Facts(
        trigger=job.trigger,
        attempts=job.attempts,
        step=job.step,
        deferrals=job.deferrals,
        recorded_at=datetime.fromtimestamp(job.started, UTC),
        expires_at=None if job.expires is None else _moment(job.expires),
        replay_until=_moment(leaves_until(job, gate, done.content)),
        state=job.state,
    )
    jitter = chance
    if policy.jitter_kind == "delivery" and not job.is_ping:
        name = delivery_id(job.id, datetime.fromtimestamp(job.created, UTC))
        jitter = jitter_of(policy, delivery=name, step=job.step, chance=chance)
    outcome = decide(policy, facts, result, now=done.finished_at, jitter=jitter)
    due_at = outcome.due_at if job.trigger == "schedule" else _due_again(done, gate)
    return Judged(job, done, outcome, result, pace_of(result), due_at)


def _due_again(done: Done, gate: Gate) -> datetime | None:
    """Return when a delivery is due again after it failed as a probe."""
    breaker = gate.policy.breaker
    if done.sent is None or done.job.trigger != "probe" or breaker is None:
        return None
    final = verdict(done.sent.result, gate.policy) is Verdict.PERMANENT
    return due_again(breaker, done.finished_at, final=final)


def _moment(seconds: float) -> datetime:
    """Return the moment so many seconds after 1970; the last microseconds of 9999 round up to none."""
    return datetime.fromtimestamp(min(seconds, LAST), UTC)
