"""Many rows like one, written by the database: Django would take longer to make the objects than the test."""

from django.db import connections
from django.db.models import Model

COPY = """
INSERT INTO {table} ({columns})
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %s)
SELECT {values} FROM {table}, numbers WHERE id = %s
"""


def copies(row: Model, count: int, **changes: str) -> None:
    """Write `count` copies of a stored row; `changes` are SQL, in which `n` is the number of the copy."""
    if count < 1:
        return
    fields = [field.column for field in row._meta.concrete_fields]
    columns = [name for name in fields if name != "id" or name in changes]
    values = ", ".join(changes.get(name, name) for name in columns)
    sql = COPY.format(table=row._meta.db_table, columns=", ".join(columns), values=values)
    with connections[row._state.db].cursor() as cursor:
        cursor.execute(sql, [count, row.pk])
