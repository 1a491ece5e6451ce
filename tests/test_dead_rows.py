"""What tests have rolled back does not stay in the tables."""

from collections.abc import Callable

import pytest
from django.db import connection, transaction

from tests.dead_rows import BIG, empty_tables
from webhooks_app.models import Tenant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.pg]


def roll_back(count: int) -> None:
    """Write rows, and take them back."""
    with transaction.atomic():
        Tenant.objects.bulk_create(Tenant(id=f"{n}{'x' * 50}") for n in range(count))
        transaction.set_rollback(True)


def size() -> int:
    """Return the bytes of the table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size('webhooks_app_tenant')")
        return int(cursor.fetchone()[0])


def test_many_go():
    roll_back(5_000)
    assert size() > BIG
    empty_tables(connection, BIG)
    assert size() == 0


def test_a_few_stay():
    roll_back(10)
    before = size()
    empty_tables(connection, BIG)
    assert 0 < size() == before


def test_a_plan_starts_without_any(request: pytest.FixtureRequest):
    roll_back(10)
    request.getfixturevalue("tables_as_new")
    assert size() == 0


def test_it_happens_after_every_test(pytestconfig: pytest.Config, request: pytest.FixtureRequest):
    plugin = pytestconfig.pluginmanager.get_plugin("tests.dead_rows")
    hook: Callable[[pytest.Item], object] = plugin.pytest_runtest_teardown
    roll_back(5_000)
    for _ in hook(request.node):
        pass
    assert size() == 0
