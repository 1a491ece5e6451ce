"""`webhooks_recover`: queue everything a webhook lacks since a moment."""

from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions.actor import operator
from ...actions.recover import recover, replay_from_earliest
from ...actions.scope import get_endpoint
from ...exceptions import ActionError
from ...models import Job
from ..moments import FORM, moment
from ..working import work_on

ACTOR = operator("command", "webhooks_recover")


class Command(BaseCommand):
    """Prints on stdout how many deliveries were queued; with --background, the id of the job."""

    help = "Queue a webhook's dead deliveries and the events it may have and never had."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the webhook and a window."""
        parser.add_argument("webhook", help="whk_…")
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--since", help=f"events from then on: {FORM}")
        which.add_argument("--earliest", action="store_true", help="all that is kept, and may be sent to it")
        parser.add_argument("--until", help="events before then")
        parser.add_argument("--background", action="store_true", help="leave the work to the workers")

    def handle(self, *args: Any, background: bool, **options: Any) -> None:
        """Begin the job, and do it unless it is left to others."""
        since, until = (moment(name, options[name]) for name in ("since", "until"))
        try:
            job = self._begin(options["webhook"], since, until)
        except ActionError as error:
            raise CommandError(error.told) from error
        self.stdout.write(job.public_id if background else str(work_on(job).done))

    def _begin(self, public_id: str, since: datetime | None, until: datetime | None) -> Job:
        endpoint = get_endpoint(ACTOR, public_id)
        if since is not None:
            return recover(ACTOR, endpoint, since=since, until=until)
        if until is not None:
            raise CommandError("--until goes with --since")
        return replay_from_earliest(ACTOR, endpoint)
