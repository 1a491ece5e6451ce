"""`webhooks_run`: the whole delivery path in one process, without Celery or a broker."""

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from ...actions.prune import prune
from ...actions.run_jobs import run_jobs
from ...pipeline import local

logger = logging.getLogger("webhooks_app.pipeline")

JOBS_EVERY = 1.0
PRUNE_EVERY = 3600.0
PRUNE_SECONDS = 60.0


class Command(BaseCommand):
    """Fan out, deliver, tick, recover and prune until SIGTERM or Ctrl-C."""

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
        jobs = threading.Event()
        threading.Thread(target=_run_jobs, args=(stop, jobs), name="webhooks-jobs", daemon=True).start()
        threading.Thread(target=_prune_hourly, args=(stop,), name="webhooks-prune", daemon=True).start()
        self.stderr.write("Delivering webhooks; stop with Ctrl-C or SIGTERM.")
        if not local.run(stop, interval=interval, jobs=jobs):
            raise CommandError("some requests were not recorded in time; they are sent again")


def _run_jobs(stop: threading.Event, rung: threading.Event) -> None:
    """Do jobs as soon as one is rung for; those that other processes begin are looked for."""
    while not stop.is_set():
        rung.wait(JOBS_EVERY)
        rung.clear()
        try:
            run_jobs(stopping=stop.is_set, rest=stop.wait)
        except Exception:  # whatever it is, the deliveries go on and the next look tries again
            logger.exception("looking for jobs failed")
            connections.close_all()
    connections.close_all()


def _prune_hourly(stop: threading.Event) -> None:
    while not stop.wait(PRUNE_EVERY):
        try:
            prune(max_seconds=PRUNE_SECONDS)
        except Exception:  # whatever it is, the deliveries go on and the next hour tries again
            logger.exception("pruning failed")
        finally:
            connections.close_all()
