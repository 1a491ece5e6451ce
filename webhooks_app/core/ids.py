"""Public ids: a prefix, an underscore and 26 characters of Crockford base32 for 128 bits (ULID text form).

Pure: values are given. `webhooks_app.ids` makes new ones from the clock and randomness.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "event": "evt",
        "endpoint": "whk",
        "delivery": "dlv",
        "attempt": "att",
        "api_key": "key",
        "audit": "aud",
        "job": "job",
        "request": "req",
        "receipt": "rcp",
    }
)
EVENT_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_PREFIXES: Final = frozenset(PREFIXES.values())
# 128 bits in 26 characters leave two bits of the first one unused, so it is never above 7.
_BODY: Final = re.compile(rf"[0-7][{CROCKFORD}]{{25}}")
_PAIRS: Final = tuple(high + low for high in CROCKFORD for low in CROCKFORD)
_SHIFTS: Final = tuple(range(120, -1, -10))
_TO_INT32: Final = str.maketrans(CROCKFORD, "0123456789abcdefghijklmnopqrstuv")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LOW_80: Final = (1 << 80) - 1
_MAX_PK: Final = (1 << 63) - 1


class IdError(ValueError):
    """An event id that is not 1 to 64 characters of A-Z a-z 0-9 _ -."""

    code = "invalid_event_id"


def format_id(prefix: str, value: int) -> str:
    """Return `prefix_` and 26 characters for a 128-bit `value`.

    Raises ValueError for a prefix that is not in PREFIXES and for a value outside 0 .. 2**128 - 1.
    """
    if prefix not in _PREFIXES or not 0 <= value < 1 << 128:
        raise ValueError(f"no id for prefix {prefix!r} and a value of {value.bit_length()} bits")
    return prefix + "_" + "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def parse_id(prefix: str, text: str) -> int | None:
    """Return the value of an id made by `format_id`, None for anything else.

    One id has one spelling: lower case and Crockford's look-alikes (I, L, O) are not read.
    """
    given, _, body = text.partition("_")
    if given != prefix or not _BODY.fullmatch(body):
        return None
    return int(body.translate(_TO_INT32), 32)


def check_event_id(text: str) -> None:
    """Raise IdError unless `text` matches EVENT_ID (no `.`: Standard Webhooks, "Signature scheme")."""
    if not isinstance(text, str) or not EVENT_ID.fullmatch(text):
        raise IdError("an event id has 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'")


def tenant_event_id(tenant: str | None, given: str) -> str:
    """Return the event id for an id `given` by a tenant through the API: tenants cannot collide.

    `evt_` and the first 128 bits of SHA-256 over both, joined as netstrings; no tenant (None) differs
    from an empty one. Raises IdError when `given` is not an event id.
    """
    check_event_id(given)
    owner = b"-" if tenant is None else _netstring(tenant)
    digest = hashlib.sha256(owner + _netstring(given)).digest()
    return format_id("evt", int.from_bytes(digest[:16], "big"))


def system_event_id(*, at: datetime, seed: str) -> str:
    """Return the deterministic id of an event of ours.

    `evt_` and a ULID: the milliseconds of `at`, then the first 10 bytes of SHA-256(`seed`).
    Raises ValueError when `at` is naive or outside the 48 bits of a ULID's time.
    """
    tail = hashlib.sha256(seed.encode()).digest()[:10]
    return format_id("evt", _millis(at) << 80 | int.from_bytes(tail, "big"))


def delivery_id(pk: int, created_at: datetime) -> str:
    """Return the public id of a delivery: 48 bits of milliseconds, 80 bits of key.

    Raises ValueError for a naive `created_at` and for a `pk` that is no bigint key.
    """
    if not 0 <= pk <= _MAX_PK:
        raise ValueError("a delivery's key is a positive bigint")
    return format_id("dlv", _millis(created_at) << 80 | pk)


def parse_delivery_id(text: str) -> int | None:
    """Return the key inside a delivery id, None when `text` is none or the key would not fit a bigint.

    Whoever looks the row up compares `delivery_id(row.pk, row.created_at)` with `text`: the time counts too.
    """
    value = parse_id("dlv", text)
    pk = _MAX_PK + 1 if value is None else value & _LOW_80
    return pk if pk <= _MAX_PK else None


def attempt_id(token: uuid.UUID, pk: int) -> uuid.UUID:
    """Return the id of the attempt that the lease `token` makes for the delivery `pk`.

    The token's 48 bits of time stay; its low 80 bits (random) plus `pk`, modulo 2**80, follow. So one
    token names every attempt of a batch, and a lease needs no randomness per row.
    """
    value = token.int
    return uuid.UUID(int=value & ~_LOW_80 | (value + pk) & _LOW_80)


def _netstring(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return b"%d:%s," % (len(raw), raw)


def _millis(at: datetime) -> int:
    if at.utcoffset() is None:
        raise ValueError("a naive datetime names no moment")
    millis = (at - _EPOCH) // _MILLISECOND
    if not 0 <= millis < 1 << 48:
        raise ValueError("the time of an id lies between 1970 and 10889")
    return millis
