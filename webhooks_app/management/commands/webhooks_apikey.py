"""`webhooks_apikey`: make, list and revoke keys of the REST API."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from ...actions.actor import PERMISSIONS, SCOPES, operator
from ...actions.api_keys import create_api_key, revoke_api_key
from ...actions.scope import visible_api_keys
from ...exceptions import ActionError
from ...models import ApiKey

ACTOR = operator("command", "webhooks_apikey")


class Command(BaseCommand):
    """`create` prints the key alone on stdout, so that a script can take it."""

    help = "Make, list and revoke keys of the REST API."

    def add_arguments(self, parser: CommandParser) -> None:
        """One sub-command for each verb."""
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="create|list|revoke")
        create = verbs.add_parser("create", help="print a new key; it is shown this once")
        create.add_argument("--scope", required=True, help="platform, partner:ID or tenant:ID")
        create.add_argument(
            "--permission",
            action="append",
            dest="permissions",
            metavar="NAME",
            help=f"may be repeated; default: {' '.join(PERMISSIONS)}",
        )
        create.add_argument("--environment", default="live", help="live (default) or test")
        create.add_argument("--name", default="", help="what the key is for")
        create.add_argument("--days", type=int, help="let it expire after so many days")
        verbs.add_parser("list", help="list all keys, newest first")
        revoke = verbs.add_parser("revoke", help="revoke a key for good")
        revoke.add_argument("id", help="key_…, as listed")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        """Do it."""
        try:
            {"create": self._create, "list": self._list, "revoke": self._revoke}[verb](options)
        except ActionError as error:
            raise CommandError(str(error)) from error

    def _create(self, options: dict[str, Any]) -> None:
        scope, _, scope_id = options["scope"].partition(":")
        if scope not in SCOPES or (scope == "platform") != (not scope_id):
            raise CommandError("--scope must be platform, partner:ID or tenant:ID")
        days = options["days"]
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500")
        made = create_api_key(
            ACTOR,
            scope=scope,
            scope_id=scope_id or None,
            permissions=options["permissions"] or PERMISSIONS,
            environment=options["environment"],
            name=options["name"],
            expires_at=None if days is None else timezone.now() + timedelta(days=days),
        )
        self.stderr.write(f"Made {made.api_key.public_id}. Keep the key: it is not shown again.")
        self.stdout.write(made.key)

    def _list(self, options: dict[str, Any]) -> None:
        for row in visible_api_keys(ACTOR).order_by("-pk"):
            self.stdout.write("\t".join(_columns(row)))

    def _revoke(self, options: dict[str, Any]) -> None:
        row = revoke_api_key(ACTOR, options["id"])
        self.stderr.write(f"Revoked {row.public_id}.")


def _columns(row: ApiKey) -> list[str]:
    state = "revoked" if row.revoked_at else "active"
    if row.expires_at and row.expires_at <= timezone.now():
        state = "expired"
    scope = row.scope if row.scope_id is None else f"{row.scope}:{row.scope_id}"
    used = "never used" if row.last_used_at is None else f"used {row.last_used_at:%Y-%m-%d}"
    return [row.public_id, state, scope, row.environment, " ".join(row.permissions), used, row.name]
