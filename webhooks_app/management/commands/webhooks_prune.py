"""`webhooks_prune`: delete what is past its retention."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions.prune import prune

UNFINISHED = 3


class Command(BaseCommand):
    """Exit code 0 when all is done, 3 when the time was over before the work."""

    help = "Delete events, deliveries, attempts and deleted webhooks that are past their retention."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the size of the steps and the time to stop."""
        parser.add_argument("--batch", type=int, default=1000, help="rows of one transaction (default 1000)")
        parser.add_argument("--max-seconds", type=float, help="stop then; the next run goes on")

    def handle(self, *args: Any, batch: int, max_seconds: float | None, **options: Any) -> None:
        """Prune, with a line every few seconds."""
        if not 1 <= batch <= 100_000:
            raise CommandError("--batch must be from 1 to 100000")
        done = prune(batch=batch, max_seconds=max_seconds, tell=_now_and_then(self.stderr.write))
        counts = {name: getattr(done, name) for name in done.__slots__ if name != "finished"}
        self.stdout.write(_line(counts))
        if not done.finished:
            raise CommandError("the time is over; run it again to go on", returncode=UNFINISHED)


def _line(counts: Mapping[str, int]) -> str:
    return "deleted: " + ", ".join(f"{count} {name}" for name, count in counts.items())


def _now_and_then(write: Callable[[str], Any], seconds: float = 5.0) -> Callable[[Mapping[str, int]], None]:
    """Return a function that writes progress, but not more often than every few seconds."""
    last = time.monotonic()

    def tell(counts: Mapping[str, int]) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            write(_line(counts))

    return tell
