"""The worker of jobs: a batch of one owner after the other, each batch in a short transaction of its own."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import InterfaceError, InternalError, OperationalError
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce

from .. import conf
from ..models import Job
from ..pipeline import announce, clock
from ..pipeline.job_rows import ClaimLostError, finish, hold, move_on
from ..pipeline.pace import QUEUEING, pace
from ..pipeline.spacing import SpacedWakes, is_next_wake
from ..pipeline.transactions import Tx, is_passing, short
from .bulk_retry import RetrySteps
from .erase import EraseSteps
from .hasten import HastenSteps
from .job_steps import Portion, Steps, Written
from .jobs import OPEN, forget_labels, unclaimed
from .recover import RecoverSteps

logger = logging.getLogger("webhooks_app.jobs")

# Seconds, longer than the longest batch; so long a job waits for a worker that died.
CLAIM = 60.0
AT_ONCE = 1_000

STEPS: Mapping[str, Steps] = {
    Job.Kind.RECOVER: RecoverSteps(),
    Job.Kind.BULK_RETRY: RetrySteps(),
    Job.Kind.ERASE: EraseSteps(),
    Job.Kind.HASTEN: HastenSteps(),
}


def run_jobs(
    *,
    max_seconds: float = 20.0,
    stopping: Callable[[], bool] = lambda: False,
    rest: Callable[[float], object] = lambda seconds: None,
) -> bool:
    """Work on the open jobs; several workers may do so at once, each job has one of them at a time.

    A worker that dies loses at most its uncommitted batch: the next one goes on behind the last committed.

    Args:
        max_seconds: return after the batch that passes it.
        stopping: asked between batches whether to return.
        rest: called after each batch with the seconds for which it should rest, to give way to live work.

    Returns:
        Whether jobs are left that nobody is working on.
    """
    alias = conf.current().DATABASE
    until, wakes = time.monotonic() + max_seconds, SpacedWakes()
    try:
        while True:
            turns = _turns(alias)
            if not turns:
                return False
            for job_id in turns:
                if stopping():
                    return True
                began = time.monotonic()
                take_turn(alias, job_id, wakes)
                now = time.monotonic()
                if now > until:
                    return is_left(alias)
                rest(pace().rest(now - began, now, times=QUEUEING))
    finally:
        wakes.settle()


def _turns(alias: str) -> list[int]:
    """Return the oldest free job of each owner, first whose last turn is longest ago."""
    rows = _free(alias).order_by("pk").values_list("tenant_id", "partner_id", "claimed_until", "pk")[:AT_ONCE]
    first: dict[tuple[str | None, str | None], tuple[float, int]] = {}
    for tenant_id, partner_id, claimed_until, pk in rows:
        # A free job was claimed until it got as far as it is.
        last = claimed_until.timestamp() if claimed_until else 0.0
        first.setdefault((tenant_id, partner_id), (last, pk))
    return [pk for _, pk in sorted(first.values())]


def is_left(alias: str) -> bool:
    """Return whether there are open jobs that nobody is working on."""
    return _free(alias).exists()


def _free(alias: str) -> QuerySet[Job]:
    return Job.objects.using(alias).filter(unclaimed(clock.db_now(alias)), state__in=OPEN)


def take_turn(alias: str, job_id: int, wakes: SpacedWakes | None = None) -> bool:
    """Claim a job and do one batch of it; return whether it was free and open.

    Args:
        wakes: of the batches before, where more are to follow; whoever gives it settles it.
    """
    turn = _claimed(alias, job_id)
    if turn is None:
        return False
    job = turn.job
    try:
        _batch(alias, turn, wakes or SpacedWakes())
    except ClaimLostError:
        logger.info("job %s was taken over or ended", job.public_id)
    except Exception as error:  # whatever it is must not stop the other jobs
        if isinstance(error, OperationalError | InterfaceError | InternalError) and is_passing(alias, error):
            logger.warning("job %s waits: %s", job.public_id, type(error).__name__)
        else:
            logger.exception("job %s failed", job.public_id)
            _fail(alias, job, type(error).__name__)
    return True


@dataclass(frozen=True, slots=True)
class _Turn:
    """A job that this worker has claimed, and when its last batch was; None: it has had none."""

    job: Job
    last: datetime | None


def _claimed(alias: str, job_id: int) -> _Turn | None:
    now = clock.db_now(alias)
    rows = Job.objects.using(alias).filter(unclaimed(now), pk=job_id, state__in=OPEN)
    job = rows.first()
    if job is None:
        return None
    until = now + timedelta(seconds=CLAIM)
    # Whoever has done a batch meanwhile has left another moment.
    claimed = rows.filter(claimed_until=job.claimed_until).update(
        state=Job.State.RUNNING, claimed_until=until, started_at=Coalesce(F("started_at"), now)
    )
    last, job.claimed_until = job.claimed_until, until
    return _Turn(job, last) if claimed else None


def _batch(alias: str, turn: _Turn, wakes: SpacedWakes) -> None:
    job = turn.job
    steps = STEPS[job.kind]
    # A cancelled job need not look for more.
    portion = Portion((), job.cursor, is_last=False) if job.cancel_requested_at else steps.look(alias, job)
    written = short(alias, lambda tx: _write(tx, steps, job, portion), durable=False)
    wakes.add(_to_wake(turn, written) | {each.endpoint_id for each in written.ended})
    if written.at is not None:
        announce.ended(written.ended, written.at)


def _to_wake(turn: _Turn, written: Written) -> set[int]:
    """Return whom to wake. A slice may be one batch only: what spaces wakes has to outlive it."""
    job = turn.job
    if job.endpoint_id is None:
        return written.wake
    is_due = written.is_over or is_next_wake(turn.last, written.at)
    return {job.endpoint_id} if is_due and job.done + written.done else set()


def _write(tx: Tx, steps: Steps, job: Job, portion: Portion) -> Written:
    if job.claimed_until is None:
        raise ClaimLostError
    held = hold(tx, job.pk, claimed_until=job.claimed_until, cursor=job.cursor)
    if held.is_cancelled:
        finish(tx, held, Job.State.CANCELLED, done=0, skipped=0)
        return Written(is_over=True)
    written = steps.write(tx, job, portion, held.now)
    written.at = held.now
    done, skipped = written.done, written.skipped
    written.is_over = bool(written.stop) or (portion.is_last and written.rest is None)
    if written.is_over:
        state = Job.State.FAILED if written.stop else Job.State.SUCCEEDED
        finish(tx, held, state, done=done, skipped=skipped, error=written.stop)
    else:
        rest = timedelta(seconds=written.rest or 0.0)
        move_on(tx, held, cursor=portion.reached, done=done, skipped=skipped, rest=rest)
    return written


def _fail(alias: str, job: Job, error: str) -> None:
    mine = Job.objects.using(alias).filter(pk=job.pk, claimed_until=job.claimed_until, state__in=OPEN)
    forget_labels(mine)
    mine.update(state=Job.State.FAILED, error=error, finished_at=clock.db_now(alias), claimed_until=None)
