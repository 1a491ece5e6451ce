"""The one clock of the path: the delivery database's, read in the statement that takes the locks."""

from collections.abc import Callable
from datetime import datetime

from django.db import connections
from django.utils import timezone

from .dialect import dialect_of


def _as_read(moment: datetime) -> datetime:
    return moment


# Tests replace this to move time; everything that asks the clock goes through it.
translate: Callable[[datetime], datetime] = _as_read


def read(value: object) -> datetime:
    """Turn what a statement returned for `Dialect.now_sql` into the current moment."""
    return translate(value if isinstance(value, datetime) else timezone.now())


def db_now(alias: str) -> datetime:
    """Return the current time of the database `alias` (SQLite: of this machine)."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {dialect_of(connection).now_sql}")
        return read(cursor.fetchone()[0])
