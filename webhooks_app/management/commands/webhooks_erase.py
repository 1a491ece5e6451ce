"""`webhooks_erase`: remove the payloads of a tenant, an identity or a subject."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...actions.actor import operator
from ...actions.erase import erasable, erase
from ...exceptions import ActionError, InvalidRequest
from ..working import work_on

ACTOR = operator("command", "webhooks_erase")
OPTIONS = {"tenant_id": "tenant", "identity_id": "identity", "subject": "subject"}


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
        labels = {label: options[option] for label, option in OPTIONS.items()}
        if all(value is None for value in labels.values()):
            raise CommandError("give at least one of --tenant, --identity and --subject")
        try:
            if not yes:
                count = erasable(ACTOR, **labels)
                self.stdout.write(f"{count} events have payloads; repeat with --yes to remove them")
                return
            job = erase(ACTOR, **labels)
        except InvalidRequest as error:
            told = (f"--{OPTIONS.get(path, path)} {message}" for path, message in error.errors)
            raise CommandError("; ".join(told)) from error
        except ActionError as error:
            raise CommandError(error.told) from error
        self.stdout.write(f"{work_on(job).done} payloads removed")
