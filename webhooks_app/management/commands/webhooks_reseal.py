"""`webhooks_reseal`: move all secrets to the first master key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions.reseal import reseal
from ...exceptions import ConfigurationError

BROKEN = 1
UNFINISHED = 3


class Command(BaseCommand):
    """Exit code 0 when no other key is needed, 1 when values do not open, 3 when --limit left some."""

    help = "Seal every secret with the first of MASTER_KEYS, so that older keys can be taken out."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the size of the steps and a limit."""
        parser.add_argument("--limit", type=int, help="stop after so many values; the next run goes on")
        parser.add_argument("--batch", type=int, default=500, help="values between two lines of progress")

    def handle(self, *args: Any, limit: int | None, batch: int, **options: Any) -> None:
        """Reseal, with a line after each batch."""
        if batch < 1 or (limit is not None and limit < 1):
            raise CommandError("--limit and --batch must be at least 1")
        total = 0
        while True:
            try:
                step = reseal(limit=batch if limit is None else min(batch, limit - total))
            except ConfigurationError as error:
                raise CommandError(str(error)) from error
            total += step.done
            self.stderr.write(f"{total} resealed, {step.remaining} remain")
            if not step.done or step.remaining == step.failed or total == limit:
                break
        self.stdout.write(f"resealed: {total}, remaining: {step.remaining}, do not open: {step.failed}")
        if step.failed:
            message = "some values do not open with any of MASTER_KEYS; webhooks_doctor names one"
            raise CommandError(message, returncode=BROKEN)
        if step.remaining:
            raise CommandError("values remain; run it again", returncode=UNFINISHED)
