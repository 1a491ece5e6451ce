"""A database of its own for each test: a copy of a template that is migrated once per run."""

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connections

from tests.e2e.settings import ALIAS, database

TEMPLATE = "e2e_template"
# Any number will do, as long as all of this run's processes use the same.
_LOCK = 7_100_231


def url_in(server_url: str, name: str) -> str:
    """Return the URL of another database of the same server."""
    return f"{server_url.rpartition('/')[0]}/{name}"


@contextlib.contextmanager
def alias_for(url: str) -> Iterator[None]:
    """Let the alias `e2e` of this process mean the database at `url`."""
    settings: dict[str, Any] = connections.settings
    settings[ALIAS] = connections.configure_settings({"default": database(url)})["default"]
    try:
        yield
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del settings[ALIAS]


@contextlib.contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Make a migrated database on the server at `server_url` and yield its URL."""
    name = f"e2e_{secrets.token_hex(6)}"
    with psycopg.connect(url_in(server_url, "postgres"), autocommit=True) as admin:
        _make_template(admin, server_url)
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    try:
        yield url_in(server_url, name)
    finally:
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(url_in(server_url, "postgres"), autocommit=True) as admin,
        ):
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _make_template(admin: psycopg.Connection, server_url: str) -> None:
    """Migrate the template unless another process of the run has; who copies it holds the lock too."""
    admin.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    if admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone():
        return
    admin.execute(f"CREATE DATABASE {TEMPLATE}")
    with alias_for(url_in(server_url, TEMPLATE)):
        call_command("migrate", database=ALIAS, verbosity=0)
