"""`webhooks_doctor`: examine the installation, line by line, and say how to mend what is wrong."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...ops.doctor import Level, examine

_MARKS = {Level.OK: "ok", Level.WARNING: "WARN", Level.FAILED: "FAIL", Level.SKIPPED: "-"}


class Command(BaseCommand):
    """Exit code 0 when webhooks can leave safely, 1 when something must be mended."""

    help = "Examine settings, databases, broker, keys, clocks, DNS and the flow of webhooks."
    # It makes them itself, and must run when they fail.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Print each finding as it comes."""
        bad = 0
        for finding in examine():
            bad += finding.level is Level.FAILED
            self.stdout.write(f"{_MARKS[finding.level]:<5} {finding.subject}: {finding.message}")
            if finding.fix:
                self.stdout.write(f"      -> {finding.fix}")
            self.stdout.flush()
        if bad:
            raise CommandError(f"{bad} of these must be mended before webhooks leave safely")
