"""`webhooks_erase`: remove the payloads of a tenant, an identity or a subject."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ... import conf
from ...actions.actor import operator
from ...actions.erase import erasable, erase
from ...actions.jobs import OPEN
from ...actions.run_jobs import take_turn
from ...exceptions import ActionError
from ...models import Job

ACTOR = operator("command", "webhooks_erase")
# Between two looks at a job that another worker has taken.
PAUSE = 0.5


class Command(BaseCommand):
    """Prints how many events' payloads were removed; without --yes, how many would be."""

    help = "Remove the payloads of all events that have every given label, for good."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the labels."""
        parser.add_argument("--tenant", help="the events of this tenant")
        parser.add_argument("--identity", help="with this identity_id")
        parser.add_argument("--subject", help="about this subject")
        parser.add_argument("--yes", action="store_true", help="do it; without it nothing is changed")

    def handle(self, *args: Any, yes: bool, **options: Any) -> None:
        """Count, or erase and wait for the end."""
        labels = {
            "tenant_id": options["tenant"],
            "identity_id": options["identity"],
            "subject": options["subject"],
        }
        try:
            if not yes:
                count = erasable(ACTOR, **labels)
                self.stdout.write(f"{count} events have payloads; repeat with --yes to remove them")
                return
            job = self._done(erase(ACTOR, **labels))
        except ActionError as error:
            raise CommandError(f"{error}. {error.fix}".strip()) from error
        if job.state != Job.State.SUCCEEDED:
            raise CommandError(f"the job {job.public_id} {job.state}: {job.error}")
        self.stdout.write(f"{job.done} payloads removed")

    def _done(self, job: Job) -> Job:
        """Work on the job, beside whoever else does, until it has ended."""
        alias = conf.current().DATABASE
        while job.state in OPEN:
            if not take_turn(alias, job.pk):
                time.sleep(PAUSE)
            job.refresh_from_db(using=alias)
        return job
