"""PostgreSQL array literals, written as text: a batch of a hundred rows costs microseconds, not milliseconds.

The driver adapts arrays element by element in Python. Here each kind of column has one way to be written
(PostgreSQL documentation, "Array Input and Output Syntax"); the literal itself still goes to the server as a
quoted parameter.
"""

from collections.abc import Callable, Iterable
from typing import Any


def literal(kind: str, values: Iterable[Any]) -> str:
    """Return the array literal of values for a column of PostgreSQL type `kind`; None becomes NULL.

    Raises KeyError for a type that has no entry here.
    """
    write = _WRITERS[kind]
    return "{" + ",".join(["NULL" if value is None else write(value) for value in values]) + "}"


def _text(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def _time(value: Any) -> str:
    return f'"{value if isinstance(value, str) else value.isoformat()}"'


def _bytes(value: bytes) -> str:
    return f'"\\\\x{value.hex()}"'


def _boolean(value: Any) -> str:
    return "t" if value else "f"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "bigint": str,
    "int": str,
    "smallint": str,
    "boolean": _boolean,
    "double precision": repr,
    "uuid": str,
    "text": _text,
    "jsonb": _text,
    "timestamptz": _time,
    "bytea": _bytes,
}
