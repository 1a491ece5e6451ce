"""Helpers for the tests of jobs."""

from webhooks_app.actions.run_jobs import run_jobs, take_turn
from webhooks_app.models import Job


def finished(job: Job) -> Job:
    """Do all of the open jobs and return this one as it is then."""
    assert not run_jobs(max_seconds=60)
    job.refresh_from_db()
    return job


def one_batch(job: Job) -> Job:
    """Do one batch of the job."""
    assert take_turn("default", job.pk)
    job.refresh_from_db()
    return job


def counts(job: Job) -> tuple[str, int | None, int, int]:
    """Return state, total, done and skipped."""
    return job.state, job.total, job.done, job.skipped
