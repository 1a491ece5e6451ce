"""The relay of slices in which Celery's workers do the jobs: one at a time, whoever starts it how often."""

import time
from dataclasses import dataclass

from django.db.models import QuerySet

from .. import conf
from ..models import Job, PipelineLock
from ..pipeline import clock, runner
from ..pipeline.pace import QUEUEING, pace
from .jobs import OPEN
from .run_jobs import is_left, run_jobs

LOCK = "jobs"
# Seconds; few, for a worker's process takes no other task meanwhile. After so many it sees to new events.
SLICE = 0.5
# As long as a task that delivers: the share of a slice that has waited long behind others.
LONGEST = 2.0
# Seconds. A relay of which nobody has heard for so long was lost with its worker or its message.
PATIENCE = 15.0


@dataclass(frozen=True, slots=True)
class Following:
    """The next slice: the baton it needs, and the seconds after which it shall begin."""

    baton: int
    wait: float


def run_slice(baton: int | None) -> Following | None:
    """Work on the open jobs for a moment, or for as long as the slice has waited for its turn, within bounds.

    Beside live work a slice is one batch, and the next one waits for some times as long as it took.

    Args:
        baton: of what the slice before returned; None to begin a relay, which only works while there is none.

    Returns:
        The next slice; None when there is nothing left, or somebody else has the relay.
    """
    alias = conf.current().DATABASE
    if baton is None and not Job.objects.using(alias).filter(state__in=OPEN).exists():
        return None
    taken = _take(alias, baton)
    if taken is None:
        return None
    began = time.monotonic()
    until = began + _share(baton, taken, now=began)
    while run_jobs(max_seconds=min(SLICE, until - began)):
        now = time.monotonic()
        if now >= until:
            return _handed_on(alias, taken, pace().rest(now - began, now, times=QUEUEING))
        runner.fan_out()
    # Nothing is left, or workers that died hold it: the next call begins a new relay.
    _locks(alias).filter(value=taken).update(value=0)
    # A job that was begun meanwhile has found the relay taken.
    again = _take(alias, None) if is_left(alias) else None
    return None if again is None else Following(again, 0.0)


def _share(baton: int | None, taken: int, *, now: float) -> float:
    """Return how many seconds the slice may last: half of the time from the beginning of the one before.

    Beside live work it is one batch, however long it has waited behind that.
    """
    if pace().is_beside_live(now):
        return 0.0
    since = 0.0 if baton is None else (taken - baton) / 2_000
    return min(LONGEST, max(SLICE, since))


def _handed_on(alias: str, taken: int, wait: float) -> Following | None:
    """Return the next slice. Its rest counts neither as time in the queue nor against the patience."""
    if not wait:
        return Following(taken, 0.0)
    moved = taken + _millis(wait)
    return Following(moved, wait) if _locks(alias).filter(value=taken).update(value=moved) else None


def _take(alias: str, baton: int | None) -> int | None:
    """Take the relay over and return the new baton: the moment, in ms, from which on it counts as lost."""
    now = clock.db_now(alias)
    following = _millis(now.timestamp() + PATIENCE)
    if baton is not None:
        mine = {"value": baton}
        # Two slices of one millisecond are two all the same.
        following = max(following, baton + 1)
    else:
        PipelineLock.objects.using(alias).bulk_create([PipelineLock(name=LOCK)], ignore_conflicts=True)
        mine = {"value__lt": _millis(now.timestamp())}
    return following if _locks(alias).filter(**mine).update(value=following) else None


def _locks(alias: str) -> QuerySet[PipelineLock]:
    return PipelineLock.objects.using(alias).filter(name=LOCK)


def _millis(seconds: float) -> int:
    return int(seconds * 1000)
