"""What is kept of a reply: capped while it is read, and made valid text."""

import re
from dataclasses import dataclass
from typing import Any

from .errors import failure_of
from .limits import Budget

MAX_HEADERS = 64
MAX_HEADER_VALUE = 1_024
MAX_HEADER_BYTES = 8_192

# These steer the sender, so they are kept even from a reply with too many headers.
_STEERING = frozenset({"retry-after", "webhook-delivery"})
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_PLAIN = re.compile(f"[\x20-\x7e\t]{{0,{MAX_HEADER_VALUE}}}").fullmatch
_NO_BODY = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Body:
    """The first bytes of a body. `note` names what broke it, "" when nothing did."""

    data: bytes = b""
    complete: bool = True
    note: str = ""


def kept_headers(headers: Any) -> tuple[tuple[str, str], ...]:
    """Return at most 64 rows with values of at most 1 kB, 8 kB in all; control characters become U+FFFD."""
    given = tuple(headers.items())
    if len(given) <= MAX_HEADERS and _PLAIN("".join(name + value for name, value in given)):
        return given
    rows = [(_text(name), _text(value)) for name, value in given]
    if len(rows) > MAX_HEADERS or _size(rows) > MAX_HEADER_BYTES:
        rows = sorted(rows, key=lambda row: row[0].lower() not in _STEERING)[:MAX_HEADERS]
    while _size(rows) > MAX_HEADER_BYTES:
        rows.pop()
    return tuple(rows)


def _text(value: str) -> str:
    return _CONTROL.sub("\ufffd", value[:MAX_HEADER_VALUE])


def _size(rows: list[tuple[str, str]]) -> int:
    return sum(len(name) + len(value) for name, value in rows)


def read_body(raw: Any, budget: Budget, kept: int) -> Body:
    """Read at most `kept` bytes, undecoded; the connection goes back to its pool only at the body's end.

    A body that breaks or drips never changes the verdict, which is the status.
    """
    budget.start_body()
    data = bytearray()
    complete, note = False, ""
    try:
        complete = _read(raw, data, kept)
    except Exception as error:
        failure = failure_of(error, budget)
        note = f"body_{failure.detail if failure.error == 'invalid_response' else failure.error}"
    finally:
        if not complete:
            raw.close()
        raw.release_conn()
    return Body(bytes(data), complete, note)


def _read(raw: Any, data: bytearray, kept: int) -> bool:
    if raw.status < 200 or (raw.status in _NO_BODY and "transfer-encoding" in raw.headers):
        raw.close()  # RFC 9112 6.3: there is no body, whatever the headers say, and nothing to go on with
        return True
    while len(data) < kept:
        chunk = raw.read1(kept - len(data), decode_content=False)
        if not chunk:
            return True
        data += chunk
    return bool(kept and raw.length_remaining == 0)
