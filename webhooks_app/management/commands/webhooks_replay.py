"""`webhooks_replay`: make events of the past due at an endpoint again."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions.actor import operator
from ...actions.replay import replay
from ...actions.scope import get_endpoint
from ...exceptions import ActionError
from ..moments import FORM, moment

ACTOR = operator("command", "webhooks_replay")


class Command(BaseCommand):
    """Prints on stdout how many deliveries were queued."""

    help = "Replay events to a webhook, by their ids or by a window of time."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the webhook, and ids or a window."""
        parser.add_argument("webhook", help="whk_…")
        parser.add_argument("--event", action="append", dest="events", metavar="ID", help="may be repeated")
        parser.add_argument("--since", help=f"events from then on: {FORM}")
        parser.add_argument("--until", help="events before then")
        parser.add_argument("--status", help="dead, failed or succeeded; default: all")
        parser.add_argument("--to", metavar="WEBHOOK", help="another webhook that gets them")
        parser.add_argument("--webhook-id", help="same or new; default: as the policy says")

    def handle(self, *args: Any, **options: Any) -> None:
        """Queue them."""
        asked = {"event_ids": options["events"], "status": options["status"]}
        asked |= {name: moment(name, options[name]) for name in ("since", "until")}
        try:
            endpoint = get_endpoint(ACTOR, options["webhook"])
            to = None if options["to"] is None else get_endpoint(ACTOR, options["to"])
            queued = replay(ACTOR, endpoint, to=to, webhook_id=options["webhook_id"], **asked)
        except ActionError as error:
            raise CommandError(error.told) from error
        self.stdout.write(str(queued))
