"""B135: migrations after the first one stop nobody, on PostgreSQL, however large the tables are."""

import re

import pytest

from .databases import Database, migrations
from .statements import collected, harmful

# Empty tables may be locked.
FIRST = 1
DROPPED = re.compile("DROP (COLUMN|TABLE|INDEX|CONSTRAINT)")
EVENT = 'ALTER TABLE "webhooks_app_event"'


@pytest.mark.pg
def test_later_migrations_stop_nobody(postgres: Database):
    names = migrations()
    postgres.migrate(names[FIRST - 1])
    for name in names[FIRST:]:
        with collected(postgres.connection) as statements:
            postgres.migrate(name)
        assert len(statements) > 3
        assert harmful(statements) == [], name


@pytest.mark.pg
def test_the_way_back_stops_nobody_either_but_for_dropping_columns(postgres: Database):
    names = migrations()
    postgres.migrate()
    for name in reversed(names[FIRST - 1 : -1]):
        with collected(postgres.connection) as statements:
            postgres.migrate(name)
        # Dropping is a change of the catalogue alone.
        others = [each for each in harmful(statements) if not DROPPED.search(each)]
        assert others == [], name


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE INDEX "i" ON "webhooks_app_event" ("id")',
        'CREATE UNIQUE INDEX "i" ON "webhooks_app_event" ("id")',
        'DROP INDEX IF EXISTS "i"',
        f'{EVENT} ADD COLUMN "at" timestamp with time zone DEFAULT now() NOT NULL',
        f'{EVENT} ADD COLUMN "n" uuid DEFAULT gen_random_uuid() NOT NULL',
        f'{EVENT} ADD COLUMN "n" integer NOT NULL UNIQUE',
        f'{EVENT} ADD COLUMN "n" integer DEFAULT 0 NOT NULL CHECK ("n" >= 0)',
        f'{EVENT} ADD COLUMN "n" bigint DEFAULT 0 NOT NULL; ALTER TABLE x ALTER y TYPE z',
        f'{EVENT} ALTER COLUMN "n" SET NOT NULL',
        f'{EVENT} ALTER COLUMN "n" TYPE bigint USING "n"::bigint',
        f'{EVENT} ALTER COLUMN "n" DROP DEFAULT',
        f'{EVENT} ADD CONSTRAINT "c" CHECK ("n" > 0)',
        f'{EVENT} ADD CONSTRAINT "f" FOREIGN KEY ("n") REFERENCES "x" ("id")',
        'UPDATE "webhooks_app_event" SET "n" = 1',
        'VACUUM FULL "webhooks_app_event"',
    ],
)
def test_what_stops_others_is_told_apart(statement: str):
    assert harmful(["SELECT 1", statement]) == [statement]


@pytest.mark.parametrize(
    "statement",
    [
        f'{EVENT} ADD COLUMN "n" bigint NULL',
        'ALTER TABLE "webhooks_app_endpointstate" ADD COLUMN "n" integer DEFAULT 0 NOT NULL CHECK ("n" >= 0)',
        f"{EVENT} ADD COLUMN \"t\" varchar(8) DEFAULT 'none' NOT NULL",
        f'{EVENT} ADD COLUMN "d" numeric(10, 2) DEFAULT 0.5 NOT NULL',
        'CREATE INDEX CONCURRENTLY "i" ON "webhooks_app_event" ("id") WHERE "n" IS NULL',
        'DROP INDEX CONCURRENTLY IF EXISTS "i"',
        f'{EVENT} ADD CONSTRAINT "c" CHECK ("n" > 0) NOT VALID',
        'INSERT INTO "django_migrations" ("app") VALUES (%s)',
    ],
)
def test_what_stops_nobody_is_let_through(statement: str):
    assert harmful([statement]) == []


def test_new_tables_may_be_locked():
    made = [
        'CREATE TABLE "new" ("id" bigint)',
        'CREATE INDEX "i" ON "new" ("id")',
        'ALTER TABLE "new" ADD x y',
    ]
    assert harmful(made) == []
    assert harmful(made[1:]) == made[1:]
