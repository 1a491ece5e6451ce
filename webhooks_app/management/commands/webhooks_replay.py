"""`webhooks_replay`: make events of the past due at an endpoint again."""

import re
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from ...actions.actor import operator
from ...actions.replay import replay
from ...actions.scope import get_endpoint
from ...exceptions import ActionError

ACTOR = operator("command", "webhooks_replay")

_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Command(BaseCommand):
    """Prints on stdout how many deliveries were queued."""

    help = "Replay events to a webhook, by their ids or by a window of time."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the webhook, and ids or a window."""
        parser.add_argument("webhook", help="whk_…")
        parser.add_argument("--event", action="append", dest="events", metavar="ID", help="may be repeated")
        moment = "a time with its zone (2026-01-31T10:00Z), or how long ago (30m, 12h, 7d)"
        parser.add_argument("--since", help=f"events from then on: {moment}")
        parser.add_argument("--until", help="events before then")
        parser.add_argument("--status", help="dead, failed or succeeded; default: all")

    def handle(self, *args: Any, **options: Any) -> None:
        """Queue them."""
        since, until = (_moment(name, options[name]) for name in ("since", "until"))
        try:
            endpoint = get_endpoint(ACTOR, options["webhook"])
            asked = {"event_ids": options["events"], "status": options["status"]}
            queued = replay(ACTOR, endpoint, since=since, until=until, **asked)
        except ActionError as error:
            raise CommandError(f"{error}. {error.fix}".strip()) from error
        self.stdout.write(str(queued))


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return timezone.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = parse_datetime(text)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.utcoffset() is None:
        raise CommandError(f"--{name}: write a time with its zone (2026-01-31T10:00Z) or an age (12h, 7d)")
    return moment
