"""Which statements of a migration stop readers or writers of tables that may be large."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# What holds a strong lock for a moment only: PostgreSQL documentation, "ALTER TABLE", "CREATE INDEX".
_CONSTANT = r"(?:'[^']*'(?:::\w+)?|-?[0-9.]+|true|false)"
_COLUMN = r'ADD COLUMN "\w+" [a-z ]+(?:\([0-9, ]+\))?'
_DEFAULT = rf"DEFAULT \(?{_CONSTANT}\)?"
_NULL = "(?:NOT )?NULL"
_ADDED = rf"{_COLUMN} ?(?:NULL|{_DEFAULT} {_NULL}|{_NULL} {_DEFAULT})?"
# A check of a new column reads the table once; these have a row or a few for each endpoint or tenant.
_SMALL = r'"webhooks_app_(?:endpoint|endpointstate|endpointsecret|tenant|partner|apikey)"'
_HARMLESS = [
    rf"ALTER TABLE \S+ {_ADDED}",
    rf"ALTER TABLE {_SMALL} {_ADDED} CHECK \([^;]*\)",
    r"ALTER TABLE \S+ SET \([^)]*\)",
    r"ALTER TABLE \S+ ADD CONSTRAINT .* NOT VALID",
    r"ALTER TABLE \S+ VALIDATE CONSTRAINT \S+",
    r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY .*",
    r"DROP INDEX CONCURRENTLY .*",
    r'DELETE FROM "django_migrations" .*',
]
_HARMLESS_RE = re.compile("|".join(f"(?:{each})" for each in _HARMLESS), re.DOTALL)
_CHANGE = re.compile(r"\s*(?:ALTER|CREATE|DROP|TRUNCATE|UPDATE|DELETE|LOCK|VACUUM|REINDEX|CLUSTER)\b", re.I)
_MADE = re.compile(r'CREATE TABLE "?(\w+)"?')
_TABLE = re.compile(r'(?:TABLE|ON|UPDATE|FROM) (?:ONLY )?"?(\w+)"?')


def harmful(statements: list[str]) -> list[str]:
    """Return the statements that stop others, or rewrite rows, of tables that were there before."""
    own, found = set(), []
    for statement in statements:
        text = statement.strip().rstrip(";")
        if not _CHANGE.match(text):
            continue
        if made := _MADE.match(text):
            own.add(made[1])
            continue
        table = _TABLE.search(text)
        if (table is None or table[1] not in own) and not _HARMLESS_RE.fullmatch(text):
            found.append(text)
    return found


@contextmanager
def collected(connection: Any) -> Iterator[list[str]]:
    """Collect the statements that run on a connection."""
    statements: list[str] = []

    def wrap(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        statements.append(str(sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrap):
        yield statements
