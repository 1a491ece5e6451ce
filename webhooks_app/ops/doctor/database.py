"""Doctor: databases, their versions, migrations, modes and clocks."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import connections, router
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from ...conf import current
from ...pipeline import clock
from .finding import Finding, failed, ok, warning

APP = "webhooks_app"
POSTGRESQL = (14, 0)
SQLITE = (3, 35)
CLOCK_WARNING = timedelta(seconds=2)
# Receivers accept a signature that is at most five minutes old or early (Standard Webhooks, "Verifying").
CLOCK_FAILURE = timedelta(seconds=60)


def aliases() -> list[str]:
    """Return the delivery database and every outbox database, each once."""
    settings = current()
    return list(dict.fromkeys((settings.DATABASE, *settings.OUTBOX_DATABASES)))


def check_databases() -> Iterator[Finding]:
    """Reach each database; look at its version, mode and migrations."""
    for alias in aliases():
        subject = f"database {alias}"
        connection = connections[alias]
        try:
            connection.ensure_connection()
        except Exception as error:  # every driver has errors of its own
            message = f"cannot be reached ({type(error).__name__})"
            yield failed(subject, message, f'Start it, or correct DATABASES["{alias}"].')
            continue
        yield from _VENDORS.get(connection.vendor, _unsupported)(subject, connection)
        yield _migrations(subject, connection)


def _unsupported(subject: str, connection: Any) -> Iterator[Finding]:
    yield failed(subject, f"is {connection.vendor}", "Use PostgreSQL 14 or newer, or SQLite 3.35 or newer.")


def _postgresql(subject: str, connection: Any) -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_isolation'), pg_is_in_recovery()")
        isolation, replica = cursor.fetchone()
    yield from postgresql(subject, divmod(connection.pg_version, 10_000), isolation, replica=replica)


def postgresql(subject: str, version: tuple[int, int], isolation: str, *, replica: bool) -> Iterator[Finding]:
    """Judge a PostgreSQL by what it says of itself."""
    if version < POSTGRESQL:
        yield failed(subject, f"is PostgreSQL {version[0]}", "Upgrade to PostgreSQL 14 or newer.")
    else:
        yield ok(subject, f"PostgreSQL {version[0]}.{version[1]}, reachable")
    if replica:
        yield failed(subject, "is a read-only replica", "Point the alias at the primary server.")
    if isolation == "read committed":
        yield ok(subject, "isolation is read committed")
    else:
        fix = "Take the isolation level out of OPTIONS; the sender locks the rows it needs."
        yield warning(subject, f"isolation is {isolation}, so busy transactions fail and are repeated", fix)


def _sqlite(subject: str, connection: Any) -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        journal = cursor.fetchone()[0]
    version = connection.Database.sqlite_version_info
    yield from sqlite(subject, version, journal, str(connection.transaction_mode))


def sqlite(subject: str, version: tuple[int, ...], journal: str, mode: str) -> Iterator[Finding]:
    """Judge an SQLite by what it says of itself."""
    shown = ".".join(map(str, version))
    if version < SQLITE:
        yield failed(subject, f"is SQLite {shown}", "Use a Python with SQLite 3.35 or newer.")
    else:
        yield ok(subject, f"SQLite {shown}, reachable; meant for one machine")
    if journal not in ("wal", "memory"):
        fix = 'Set OPTIONS["init_command"] = "PRAGMA journal_mode=WAL;".'
        yield warning(subject, f"journal mode is {journal}: readers and writers block each other", fix)
    if mode.upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        fix = 'Set OPTIONS["transaction_mode"] = "IMMEDIATE".'
        yield warning(subject, "transactions begin deferred, and fail when two of them write", fix)


_VENDORS = {"postgresql": _postgresql, "sqlite": _sqlite}


def _migrations(subject: str, connection: Any) -> Finding:
    executor = MigrationExecutor(connection)
    targets = [node for node in executor.loader.graph.leaf_nodes() if node[0] == APP]
    plan = executor.migration_plan(targets)
    missing = [migration.name for migration, _ in plan if migration.app_label == APP]
    if missing:
        fix = f"Run: manage.py migrate --database {connection.alias}"
        return failed(subject, f"migrations are missing: {', '.join(missing)}", fix)
    absent = _absent_tables(connection)
    if absent:
        fix = "The migrations are recorded as applied, the tables are gone: restore them from a backup."
        return failed(subject, f"tables are missing: {', '.join(absent)}", fix)
    return ok(subject, "all migrations are applied")


def _absent_tables(connection: Any) -> list[str]:
    models = router.get_migratable_models(apps.get_app_config(APP), connection.alias)
    return sorted({model._meta.db_table for model in models} - set(connection.introspection.table_names()))


def check_clock() -> Iterator[Finding]:
    """Compare the database's clock, by which everything is scheduled and signed, with this machine's."""
    before = timezone.now()
    there = clock.db_now(current().DATABASE)
    after = timezone.now()
    difference = max(before - there, there - after, timedelta(0))
    message = f"database and machine differ by {difference.total_seconds():.1f} s"
    fix = "Let both machines follow a time server (NTP); receivers refuse signatures five minutes off."
    if difference > CLOCK_FAILURE:
        yield failed("clock", message, fix)
    elif difference > CLOCK_WARNING:
        yield warning("clock", message, fix)
    else:
        yield ok("clock", message)
