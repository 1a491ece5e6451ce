"""The database of a run, and who may enter: an administrator and an API key."""

import secrets
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.core.management import call_command

from webhooks_app.actions.actor import PERMISSIONS, operator
from webhooks_app.actions.api_keys import create_api_key

USER = "admin"


@dataclass(frozen=True, slots=True)
class Login:
    """What opens the admin and the REST API; shown on the terminal, stored as hashes only."""

    password: str
    key: str


def make_login() -> Login:
    """Make the tables, an administrator with a random password, and an API key for the whole platform."""
    call_command("migrate", verbosity=0, interactive=False)
    password = secrets.token_urlsafe(9)
    get_user_model().objects.create_superuser(USER, "", password)
    me = operator("command", "webhooks_demo")
    created = create_api_key(me, scope="platform", permissions=PERMISSIONS, name="demo")
    return Login(password, created.key)
