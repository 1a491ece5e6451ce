"""What PostgreSQL and SQLite say differently in the statements of the path.

Everything else of a statement is written once, where it is used. Values go in through `time` and `uuid` and
come out through `moment`, because SQLite keeps both as text.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID

from .arrays import literal

Row = tuple[Any, ...]


class Dialect(Protocol):
    """One database's way of saying it."""

    now_sql: str
    lock_row: str
    share_row: str
    skip_locked: str
    try_lock: str
    lateral: bool
    returns_many: bool
    writes_in_with: bool
    native: bool

    def among(self, column: str, values: Collection[Any]) -> tuple[str, list[Any]]:
        """Return the condition that `column` is one of `values`, and its parameters."""

    def time(self, moment: datetime | str | None) -> Any:
        """Return the parameter for a moment."""

    def moment(self, value: Any) -> datetime | None:
        """Return the aware moment of a result column."""

    def uuid(self, value: UUID) -> Any:
        """Return the parameter for a UUID column."""

    def insert(
        self, cursor: Any, table: str, types: dict[str, str], rows: Sequence[Row], *, tail: str = ""
    ) -> None:
        """Insert rows in their order; `types` maps columns to PostgreSQL types, `tail` ends the statement."""

    def values(self, types: dict[str, str], rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Return a FROM item `v` with the columns of `types`, and its parameters."""

    def carried(self, column: str) -> str:
        """Return the expression for a moment that is only passed on: as text, which `time` lets through."""

    def epoch(self, column: str) -> str:
        """Return the expression for a moment as seconds since 1970: much cheaper to read than a timestamp."""

    def limits(self, *, durable: bool, brief: bool = False) -> str:
        """Return the statements that bound a transaction's waits, "" for none.

        Without `durable` its commit reaches the disk with the next one. `brief`: locks are soon given up.
        """


class PostgreSQL:
    """Arrays, so that a batch is one statement of constant text."""

    now_sql = "clock_timestamp()"
    lock_row = "FOR NO KEY UPDATE"
    share_row = "FOR SHARE"
    skip_locked = "SKIP LOCKED"
    try_lock = "FOR UPDATE SKIP LOCKED"
    lateral = True
    returns_many = True
    writes_in_with = True
    native = True

    def among(self, column: str, values: Collection[Any]) -> tuple[str, list[Any]]:
        if not values:
            return "FALSE", []
        kind = "text" if any(isinstance(value, str) for value in values) else "bigint"
        return f"{column} = ANY(%s::{kind}[])", [literal(kind, values)]

    def time(self, moment: datetime | str | None) -> Any:
        return moment

    def moment(self, value: Any) -> datetime | None:
        return value  # type: ignore[no-any-return]

    def uuid(self, value: UUID) -> Any:
        return value

    def insert(
        self, cursor: Any, table: str, types: dict[str, str], rows: Sequence[Row], *, tail: str = ""
    ) -> None:
        if len(rows) == 1:
            marks = ", ".join(["%s"] * len(types))
            cursor.execute(f"INSERT INTO {table} ({', '.join(types)}) VALUES ({marks}) {tail}", rows[0])
            return
        arrays = ", ".join(f"%s::{kind}[]" for kind in types.values())
        sql = f"INSERT INTO {table} ({', '.join(types)}) SELECT * FROM unnest({arrays}) {tail}"
        cursor.execute(sql, _columns(types, rows))

    def values(self, types: dict[str, str], rows: Sequence[Row]) -> tuple[str, list[Any]]:
        arrays = ", ".join(f"%s::{kind}[]" for kind in types.values())
        return f"unnest({arrays}) AS v({', '.join(types)})", _columns(types, rows)

    def carried(self, column: str) -> str:
        return f"{column}::text"

    def epoch(self, column: str) -> str:
        return f"extract(epoch FROM {column})::float8"

    def limits(self, *, durable: bool, brief: bool = False) -> str:
        # SET LOCAL, not SET: behind a transaction pooler a session setting would leak to strangers.
        statements = f"SET LOCAL lock_timeout = '{BRIEF_WAIT if brief else WAIT}'; {_GUARD}"
        return statements if durable else statements + "; SET LOCAL synchronous_commit = off"


def _columns(types: dict[str, str], rows: Sequence[Row]) -> list[str]:
    return [
        literal(kind, column) for kind, column in zip(types.values(), zip(*rows, strict=True), strict=True)
    ]


WAIT, BRIEF_WAIT = "2s", "250ms"
_GUARD = """SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL statement_timeout = '30s'"""


class SQLite:
    """One writer at a time: BEGIN IMMEDIATE is the lock, so no row locks are needed."""

    now_sql = "NULL"
    lock_row = ""
    share_row = ""
    skip_locked = ""
    try_lock = ""
    lateral = False
    returns_many = False
    writes_in_with = False
    native = False

    def among(self, column: str, values: Collection[Any]) -> tuple[str, list[Any]]:
        if not values:
            return "FALSE", []
        return f"{column} IN ({', '.join(['%s'] * len(values))})", list(values)

    def time(self, moment: datetime | str | None) -> Any:
        if moment is None or isinstance(moment, str):
            return moment
        return str(moment.astimezone(UTC).replace(tzinfo=None))

    def moment(self, value: Any) -> datetime | None:
        if value is None:
            return None
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return parsed.replace(tzinfo=UTC)

    def uuid(self, value: UUID) -> Any:
        return value.hex

    def insert(
        self, cursor: Any, table: str, types: dict[str, str], rows: Sequence[Row], *, tail: str = ""
    ) -> None:
        marks = ", ".join(["%s"] * len(types))
        cursor.executemany(f"INSERT INTO {table} ({', '.join(types)}) VALUES ({marks}) {tail}", rows)

    def values(self, types: dict[str, str], rows: Sequence[Row]) -> tuple[str, list[Any]]:
        names = ", ".join(f"column{place} AS {name}" for place, name in enumerate(types, 1))
        marks = ", ".join([f"({', '.join(['%s'] * len(types))})"] * len(rows))
        return f"(SELECT {names} FROM (VALUES {marks})) AS v", [value for row in rows for value in row]

    def carried(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def epoch(self, column: str) -> str:
        # SQLite's dates are exact to a millisecond at best; ids and deadlines are made of microseconds.
        seconds = f"round((julianday(substr({column}, 1, 19)) - 2440587.5) * 86400.0)"
        return f"({seconds} + CAST('0' || substr({column}, 20) AS REAL))"

    def limits(self, *, durable: bool, brief: bool = False) -> str:
        # The connection's own timeout covers the one lock there is.
        return ""


_DIALECTS: dict[str, Dialect] = {"postgresql": PostgreSQL(), "sqlite": SQLite()}


def dialect_of(connection: Any) -> Dialect:
    """Return the dialect of a Django connection; the system check refuses other vendors at start."""
    return _DIALECTS[connection.vendor]
