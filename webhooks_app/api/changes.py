"""Whether a request has changed anything: what decides if it may be carried out again."""

import re
from collections.abc import Callable
from typing import Any, Final

from django.db import connections, transaction

_WRITE: Final = re.compile(r"\s*(INSERT|UPDATE|DELETE|WITH\b.*\b(INSERT|UPDATE|DELETE))\b", re.I | re.S)


class Changes:
    """Watches one connection: was a write ``attempted``, and is one there to stay (``committed``)?

    Use it as a context manager. A write that is rolled back, alone or with its savepoint, does not stay. When
    the database is lost while it answers a COMMIT, nobody knows: it was attempted, and that is all.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._watching = connections[alias].execute_wrapper(self._execute)
        self.attempted = False
        self.committed = False

    def __enter__(self) -> "Changes":
        self._watching.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watching.__exit__(*error)

    def _execute(self, execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if _WRITE.match(str(sql)):
            self.attempted = True
            # Without a transaction Django calls it at once, which is when such a write is committed.
            transaction.on_commit(self._mark, using=self._alias, robust=True)
        return result

    def _mark(self) -> None:
        self.committed = True
