"""Turns what came back into what follows: `core.decide` with the facts of a claimed delivery."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ..core.attempt import AttemptResult
from ..core.decide import Facts, Outcome, decide
from ..core.health import Pace, pace_of
from .claim import DAY
from .gates import Gate
from .work import Done, Job

# The last second of the last year; what lies beyond it is no datetime.
LAST = 253_402_300_799.0


@dataclass(slots=True)
class Judged:
    """A finished job with its outcome, ready to be recorded."""

    job: Job
    done: Done
    outcome: Outcome
    result: AttemptResult
    pace: Pace


def judge(done: Done, gate: Gate, *, jitter: float) -> Judged:
    """Judge one finished job under its endpoint's policy; `jitter` in [0, 1)."""
    if done.sent is None:
        raise ValueError("a released job has no outcome")
    job, result = done.job, done.sent.result
    facts = Facts(
        trigger="schedule",
        attempts=job.attempts,
        step=job.step,
        deferrals=job.deferrals,
        recorded_at=datetime.fromtimestamp(job.created, UTC),
        expires_at=None if job.expires is None else _moment(job.expires),
        replay_until=_moment(job.occurred + gate.retention_days * DAY),
    )
    outcome = decide(gate.policy, facts, result, now=done.finished_at, jitter=jitter)
    return Judged(job, done, outcome, result, pace_of(result))


def _moment(seconds: float) -> datetime:
    """Return the moment so many seconds after 1970; the last microseconds of 9999 round up to none."""
    return datetime.fromtimestamp(min(seconds, LAST), UTC)
