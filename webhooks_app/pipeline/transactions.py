"""Short transactions of the path, repeated when the database asks for it."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import InterfaceError, InternalError, OperationalError, connections, transaction

from ..conf import current
from .dialect import Dialect, Row, dialect_of

logger = logging.getLogger("webhooks_app.pipeline")

T = TypeVar("T")

# PostgreSQL, Appendix A: serialization failure, deadlock, lock not available.
_NOT_AVAILABLE = "55P03"
_REPEATABLE = frozenset({"40001", "40P01", _NOT_AVAILABLE})
# The server ended the session: idle in a transaction, by an administrator, crash, start or shutdown.
_ENDED = frozenset({"25P03", "57P01", "57P02", "57P03"})
_PAUSES = (0.01, 0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Tx:
    """A running transaction of the path: its database, a cursor, and how that database says things.

    `skip`: leave out rows that somebody else has locked, instead of waiting for them.
    """

    alias: str
    cursor: Any
    dialect: Dialect
    skip: bool = False

    @property
    def lock(self) -> str:
        """The words that end a SELECT which locks its rows."""
        return f"{self.dialect.lock_row} {self.dialect.skip_locked}" if self.skip else self.dialect.lock_row

    def execute(self, statement: str, params: Sequence[Any] = ()) -> None:
        """Run one statement."""
        self.cursor.execute(statement, params)

    def insert(self, table: str, types: dict[str, str], rows: Sequence[Row], *, tail: str = "") -> None:
        """Insert rows in their order; see `Dialect.insert`."""
        self.dialect.insert(self.cursor, table, types, rows, tail=tail)

    def rows(self) -> list[Any]:
        """Return what the last statement found."""
        return list(self.cursor.fetchall())

    def row(self) -> Any:
        """Return the first row of what the last statement found, or None."""
        return self.cursor.fetchone()


@contextmanager
def reading(alias: str, *, skip: bool = False) -> Iterator[Tx]:
    """Give a `Tx` without a transaction of its own, for reads."""
    connection = connections[alias]
    with connection.cursor() as cursor:
        yield Tx(alias, cursor, dialect_of(connection), skip)


def short(alias: str, work: Callable[[Tx], T], *, durable: bool = True, sidestep: bool = False) -> T:
    """Run `work(tx)` in a transaction of its own and return its result.

    It is repeated after a deadlock, a serialization failure, a lock time-out or a lost connection, so `work`
    must start from the database each time. `durable=False` is for steps that a crash of the database may
    undo without harm. With `sidestep` a lock is given up soon, and the work repeated with `tx.skip`: one row
    that somebody keeps locked is not to hold up the others.

    Raises:
        DatabaseError: what is not worth repeating, and the last error when repeating did not help.
    """
    skip = False
    for pause in _PAUSES:
        try:
            return _once(alias, work, durable=durable, brief=sidestep, skip=skip)
        except (OperationalError, InterfaceError, InternalError) as error:
            if not is_passing(alias, error):
                raise
            skip = skip or (sidestep and _state(error) == _NOT_AVAILABLE)
            logger.info("repeating a transaction after %s", type(error.__cause__ or error).__name__)
            time.sleep(pause)
    return _once(alias, work, durable=durable, brief=sidestep, skip=skip)


def _once(alias: str, work: Callable[[Tx], T], *, durable: bool, brief: bool, skip: bool) -> T:
    connection = connections[alias]
    limits = dialect_of(connection).limits(durable=durable, brief=brief)
    if limits and _is_ours(connection):
        with _begun(connection, limits), reading(alias, skip=skip) as tx:
            return work(tx)
    with transaction.atomic(using=alias), reading(alias, skip=skip) as tx:
        if limits:
            tx.cursor.execute(limits)
        return work(tx)


def _is_ours(connection: Any) -> bool:
    """Whether only the path uses the transaction: no caller's is open, no host's class is asked in it."""
    return not connection.in_atomic_block and connection.get_autocommit() and current().TENANCY is None


@contextmanager
def _begun(connection: Any, limits: str) -> Iterator[None]:
    """A transaction without Django's book-keeping: begun, with its limits, in one message."""
    _say(connection, f"BEGIN; {limits}")
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the session may be gone; then so is the transaction
            _say(connection, "ROLLBACK")
        raise
    _say(connection, "COMMIT")


def _say(connection: Any, statement: str) -> None:
    with connection.wrap_database_errors:
        connection.connection.execute(statement, prepare=False)


def is_passing(alias: str, error: Exception) -> bool:
    """Whether the fault may pass by itself; closes a connection that is lost: the next use dials anew."""
    state = _state(error)
    if state in _REPEATABLE or "database is locked" in str(error):
        return True
    connection = connections[alias]
    if connection.in_atomic_block:
        return False
    usable = connection.is_usable()
    if not usable:
        connection.close()
    # Django may have dialled anew already, when it left the broken transaction: then the new one is usable.
    return not usable or _was_lost(error, state)


def _state(error: Exception) -> str | None:
    """Return PostgreSQL's code of an error; None when the server said nothing, "" on SQLite."""
    return getattr(error.__cause__, "sqlstate", "")


def _was_lost(error: Exception, state: str | None) -> bool:
    """Whether PostgreSQL ended the session, or libpq found it gone (an error without a code)."""
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return state in _ENDED or state.startswith("08")
