"""Empty databases to migrate, each for one test, reached by an alias of its own."""

import contextlib
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import environ
import psycopg
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader

APP = "webhooks_app"
ALIAS = "migrating"


class Database:
    """A database of one vendor, behind ALIAS."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def connection(self) -> Any:
        """Django's connection of this thread."""
        return connections[ALIAS]

    def migrate(self, target: str | None = None) -> None:
        """Migrate to a migration of the app (None: all, "zero": none)."""
        call_command("migrate", APP, *([target] if target else []), database=ALIAS, verbosity=0)

    def run(self, sql: str, params: Sequence[Any] | None = None) -> list[Any]:
        """Run a statement and return its rows, if it has any."""
        with self.connection.cursor() as cursor:
            cursor.execute(sql, params)
            return list(cursor.fetchall()) if cursor.description else []

    def schema(self) -> dict[str, Any]:
        """Return tables with their columns and constraints, which include the indexes."""
        found, own = {}, self.connection.introspection
        with self.connection.cursor() as cursor:
            for table in sorted(name for name in own.table_names(cursor) if name.startswith(APP)):
                columns = own.get_table_description(cursor, table)
                found[table] = (
                    sorted((c.name, str(c.type_code), c.null_ok, c.default) for c in columns),
                    sorted(_plain(*each) for each in own.get_constraints(cursor, table).items()),
                )
        return found


def _plain(name: str, constraint: dict[str, Any]) -> tuple[str, str]:
    kinds = ("columns", "primary_key", "unique", "check", "index")
    # SQLite counts the unnamed ones.
    return name.rstrip("0123456789_"), str([constraint[kind] for kind in kinds])


def migrations() -> list[str]:
    """Return the names of the app's migrations in their order."""
    return sorted(name for app, name in MigrationLoader(None).disk_migrations if app == APP)


@contextlib.contextmanager
def reached(url: str, **options: Any) -> Iterator[Database]:
    """Let ALIAS mean the database at `url`."""
    config = {**environ.Env.db_url_config(url), **options}
    connections.settings[ALIAS] = connections.configure_settings({"default": config})["default"]
    try:
        yield Database(url)
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.settings[ALIAS]


@contextlib.contextmanager
def made(server_url: str) -> Iterator[str]:
    """Make an empty database on a PostgreSQL server and yield its URL."""
    base, name = server_url.rpartition("/")[0], f"migrating_{secrets.token_hex(6)}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{base}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
