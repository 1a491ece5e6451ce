"""Everything that the product keeps or tells, as bytes to search in."""

import base64
import logging
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from django.db import connection

_FORMAT = logging.Formatter("%(name)s %(levelname)s %(message)s")


def tables(*, without: Iterable[str] = ()) -> dict[str, bytes]:
    """Return all rows of every table of the database, as one text per table."""
    found = {}
    with connection.cursor() as cursor:
        for name in connection.introspection.table_names(cursor):
            if name not in without:
                cursor.execute(f'SELECT * FROM "{name}"')
                found[name] = b"\n".join(_bytes(value) for row in cursor.fetchall() for value in row)
    return found


def lines(records: Iterable[logging.LogRecord]) -> bytes:
    """Return log records as written to a file, tracebacks and all fields of theirs included."""
    return b"\n".join(f"{_FORMAT.format(record)} {record.__dict__!r}".encode() for record in records)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return str(value).encode(errors="surrogateescape")


def spellings(secret: str | bytes) -> Iterator[bytes]:
    """Yield the forms in which a secret could hide."""
    raw = secret.encode() if isinstance(secret, str) else secret
    plain = base64.b64encode(raw)
    yield from (raw, plain, plain.rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"="))
    yield from (raw.hex().encode(), raw.hex().upper().encode(), quote(raw).encode(), repr(raw)[2:-1].encode())
    yield raw[::-1]


def holds(text: bytes, secret: str | bytes) -> bool:
    """Whether a text holds a secret in any of its spellings."""
    return any(form in text for form in spellings(secret))
