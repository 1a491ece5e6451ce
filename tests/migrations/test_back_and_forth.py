"""Migrations go forward and back: with rows in the tables, with writers at work, after interrupted builds."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connections

from tests.structure.sources import ROOT

from .databases import ALIAS, Database, migrations

BEFORE_INDEXES, INDEXES = "0003_policies_and_recovery", "0004_indexes_without_locks"
VENDORS = [pytest.param("postgres", marks=pytest.mark.pg), "sqlite"]
# What processes of the first release write while the tables are newer than they are.
ROWS = {
    "webhooks_app_endpoint": """(id, public_id, kind, url, method, description, events, policy,
        policy_overrides, headers, max_in_flight, environment, revision, created_at, updated_at)
        VALUES ({n}, 'whk_{n}', 'https', 'https://x', 'POST', '', '[]', 'standard', '{{}}', '[]', 100,
        'live', 1, '{at}', '{at}')""",
    "webhooks_app_outboxentry": """(id, event_id, type, environment, body, occurred_at, failures)
        VALUES ({n}, 'evt_{n}', 'order.paid', 'live', '{{}}', '{at}', 0)""",
    "webhooks_app_event": """(id, public_id, type, environment, occurred_at, recorded_at, fan_out_cursor)
        VALUES ({n}, 'evt_{n}', 'order.paid', 'live', '{at}', '{at}', 0)""",
    "webhooks_app_delivery": """(id, endpoint_id, event_id, state, priority, attempts, step, deferrals,
        lapses, position, last_error, occurred_at, created_at)
        VALUES ({n}, {n}, {n}, 'pending', 0, 0, 0, 0, 0, 1, '', '{at}', '{at}')""",
}


def insert(table: str, n: int) -> str:
    return f"INSERT INTO {table} {ROWS[table].format(n=n, at='2026-01-01 00:00:00+00')}"


@pytest.fixture(params=VENDORS)
def database(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_every_migration_goes_back_and_forward_again(database: Database):
    names, schemas = migrations(), []
    for name in names:
        database.migrate(name)
        schemas.append(database.schema())
    assert len(schemas[-1]) > len(schemas[0]) > 10
    for name, schema in zip(reversed(names), reversed(schemas), strict=True):
        database.migrate(name)
        assert database.schema() == schema, name
    database.migrate("zero")
    assert database.schema() == {}
    database.migrate()
    assert database.schema() == schemas[-1]


def test_rows_survive_and_processes_of_the_first_release_go_on(database: Database):
    database.migrate(migrations()[0])
    for table in ROWS:
        database.run(insert(table, 1))
    database.migrate()
    for table in ROWS:
        database.run(insert(table, 2))
    orderings = database.run("SELECT ordering FROM webhooks_app_endpoint")
    assert orderings == [("none",)] * 2
    deliveries = database.run("SELECT lane, started_at FROM webhooks_app_delivery")
    assert deliveries == [(None, None)] * 2
    database.migrate(migrations()[0])
    assert all(database.run(f"SELECT count(*) FROM {table}") == [(2,)] for table in ROWS)


@contextmanager
def writing(database: Database, table: str) -> Iterator[None]:
    """A caller's transaction that wrote to a table and has not ended."""
    with psycopg.connect(database.url) as session:
        session.execute(insert(table, 7) if table in ROWS else f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE")
        yield
        session.rollback()


def unusable(database: Database) -> int:
    return int(database.run("SELECT count(*) FROM pg_index WHERE NOT indisvalid")[0][0])


@pytest.mark.pg
@pytest.mark.parametrize("table", ["webhooks_app_endpointstate", "webhooks_app_outboxentry"])
@pytest.mark.parametrize(("start", "target"), [(BEFORE_INDEXES, INDEXES), (INDEXES, BEFORE_INDEXES)])
def test_an_interrupted_build_is_made_good_by_the_next_run(
    start: str, target: str, table: str, postgres: Database
):
    postgres.migrate(target)
    wanted = postgres.schema()
    postgres.migrate(start)
    with writing(postgres, table):
        postgres.run("SET statement_timeout = '300ms'")
        with pytest.raises(OperationalError):
            postgres.migrate(target)
        postgres.run("SET statement_timeout = 0")
    left = unusable(postgres)
    postgres.migrate(target)
    assert unusable(postgres) == 0
    assert postgres.schema() == wanted
    # On the way back only one of the tables has an index built; the other's is dropped.
    assert left or target == BEFORE_INDEXES


WAITS = """SELECT 1 FROM pg_stat_activity WHERE query LIKE '%INDEX CONCURRENTLY%'
AND datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"""


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.pg
@pytest.mark.parametrize(("start", "target"), [(BEFORE_INDEXES, INDEXES), (INDEXES, BEFORE_INDEXES)])
def test_events_are_written_while_an_index_is_built(start: str, target: str, postgres: Database):
    """An index that locks waits for the transactions that run, and everybody who comes later waits for it."""
    postgres.migrate(start)
    done: list[bool] = []

    def build() -> None:
        try:
            postgres.migrate(target)
            done.append(True)
        finally:
            connections[ALIAS].close()

    builder = threading.Thread(target=build, daemon=True)
    with writing(postgres, "webhooks_app_outboxentry"):
        builder.start()
        wait_for(lambda: postgres.run(WAITS))
        with psycopg.connect(postgres.url, autocommit=True) as session:
            session.execute("SET lock_timeout = '500ms'")
            session.execute(insert("webhooks_app_outboxentry", 8))
        assert not done
    builder.join(20)
    assert done
    assert unusable(postgres) == 0


BARE = """
import sys
sys.modules["psycopg"] = sys.modules["psycopg2"] = None
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("migrate", "webhooks_app", "0001", verbosity=0)
call_command("migrate", verbosity=0)
call_command("showmigrations", "webhooks_app", "--plan")
"""


def test_they_need_no_driver_of_postgresql():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "TEST_DATABASE_URL": "", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[X]") == len(migrations())
