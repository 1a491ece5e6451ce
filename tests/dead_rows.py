"""Empties the tables that tests have filled and rolled back.

PostgreSQL keeps such rows until a vacuum: every later test would read past them, and be planned for them.
"""

from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from pytest_django.plugin import blocking_manager_key

BIG = 256 * 1024  # bytes of a table; less is read sooner than emptied
_TABLES = """
SELECT quote_ident(relname), pg_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname LIKE 'webhooks\\_app\\_%'
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Look after a test that used a database, once its transaction is over."""
    yield
    if item.get_closest_marker("django_db") or "db" in getattr(item, "fixturenames", ()):
        with item.config.stash[blocking_manager_key].unblock():
            for each in connections.all(initialized_only=True):
                if each.vendor == "postgresql" and each.connection is not None:
                    empty_tables(each, BIG)


@pytest.fixture
def tables_as_new(db: None) -> None:
    """Let no row of an earlier test, and no statistics about one, have a say in this test's plans."""
    if connection.vendor == "postgresql":
        empty_tables(connection, 0)


def empty_tables(database: BaseDatabaseWrapper, big: int) -> None:
    """Empty all of the app's tables if one of them takes more than `big` bytes."""
    with database.cursor() as cursor:
        cursor.execute(_TABLES)
        sizes = dict(cursor.fetchall())
        if max(sizes.values()) > big:
            cursor.execute(f"TRUNCATE {', '.join(sizes)}")
