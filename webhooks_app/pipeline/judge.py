"""Turns what came back into what follows: `core.decide` with the facts of a claimed delivery."""

from dataclasses import dataclass
from datetime import timedelta

from ..core.attempt import AttemptResult
from ..core.decide import Facts, Outcome, decide
from ..core.health import is_slow
from .gates import Gate
from .work import Done, Job


@dataclass(frozen=True, slots=True)
class Judged:
    """A finished job with its outcome, ready to be recorded."""

    done: Done
    outcome: Outcome
    result: AttemptResult
    slow: bool

    @property
    def job(self) -> Job:
        """The claimed delivery."""
        return self.done.job


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
        recorded_at=job.created_at,
        expires_at=job.expires_at,
        replay_until=job.occurred_at + timedelta(days=gate.retention_days),
    )
    outcome = decide(gate.policy, facts, result, now=done.finished_at, jitter=jitter)
    return Judged(done, outcome, result, is_slow(result))
