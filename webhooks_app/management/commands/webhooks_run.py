"""`webhooks_run`: the whole delivery path in one process, without Celery or a broker."""

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...pipeline import local


class Command(BaseCommand):
    """Fan out, deliver and tick until SIGTERM or Ctrl-C."""

    help = "Deliver webhooks in this process, without Celery or a broker. Several may run at once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the polling interval."""
        parser.add_argument(
            "--interval",
            type=float,
            default=0.2,
            help="seconds between two looks at the outbox (default 0.2)",
        )

    def handle(self, *args: Any, interval: float, **options: Any) -> None:
        """Run until told to stop; leave when every open request is recorded."""
        if not 0.01 <= interval <= 60:
            raise CommandError("--interval must lie between 0.01 and 60 seconds")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        self.stderr.write("Delivering webhooks; stop with Ctrl-C or SIGTERM.")
        if not local.run(stop, interval=interval):
            raise CommandError("some requests were not recorded in time; they are sent again")
