"""Doing a job in the command that began it, beside whatever workers there are."""

import time

from django.core.management.base import CommandError

from .. import conf
from ..actions.jobs import OPEN
from ..actions.run_jobs import take_turn
from ..models import Job

# Between two looks at a job that another worker has taken.
PAUSE = 0.5


def work_on(job: Job) -> Job:
    """Work on a job until it has ended, and return it. Raises CommandError unless it succeeded."""
    alias = conf.current().DATABASE
    while job.state in OPEN:
        if not take_turn(alias, job.pk):
            time.sleep(PAUSE)
        job.refresh_from_db(using=alias)
    if job.state != Job.State.SUCCEEDED:
        raise CommandError(f"the job {job.public_id} {job.state}: {job.error}")
    return job
