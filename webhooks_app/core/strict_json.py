"""JSON bytes any receiver can read: RFC 8259 without its traps, or an error that names the value's path.

One pass of the C encoder and one cheap check of keys and depth serve the good case; only a refused
value is looked for again, to name it.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, Final
from uuid import UUID

MAX_DEPTH: Final = 100
Default = Callable[[Any], str | int | float | bool | None]

_CONTAINERS: Final = (dict, list, tuple)
_SCALARS: Final = (str, int, float, type(None))
_CONSTANT_KEYS: Final = {True: "true", False: "false", None: "null"}
_SHOWN: Final = 64


class PayloadError(ValueError):
    """A value that cannot travel. `path` is its JSON Pointer (RFC 6901), `message` never holds the value."""

    def __init__(self, path: str, message: str, *, code: str = "invalid_payload") -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return f"{self.path or 'value'}: {self.message}"


class RepeatedMember(ValueError):
    """An object of a JSON text has two members of this name, of which one would be lost unseen."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def members(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object as `json.loads` reads them (`object_pairs_hook`).

    Raises RepeatedMember (RFC 8259, section 4) for two of one name; of several such names the commonest.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise RepeatedMember(twice)
    return found


class _Unfit(ValueError):
    """Why a value of a known type has no JSON form."""


def encode(value: object, *, default: Default | None = None, outer: int = 0) -> bytes:
    """Return `value` as compact UTF-8 JSON.

    Decimals and UUIDs become strings; aware datetimes, dates, naive times and timedeltas take the form
    of Django's JSON encoder. `default` gives the str, number, bool or None to write for a value of any
    other type, or raises TypeError. Keys are strings, integers, booleans or None, written as `json` does.

    Raises PayloadError for: NaN and Infinity (Decimals too), naive datetimes and aware times, lone
    surrogates, NUL characters, integers above the interpreter's limit (4300 digits), other keys, keys that
    are equal once written, other types, cycles, and more than MAX_DEPTH levels of lists and objects; the
    `outer` first levels do not count.
    """
    body = _dump(value, default)
    # The escape may also be an innocent backslash followed by "u0000": the search below decides.
    if body is None or b"\\u0000" in body or not _is_plain(value, MAX_DEPTH + outer):
        _Search(default, MAX_DEPTH + outer).visit(value, ())
    if body is None:
        raise PayloadError("", "cannot be written as JSON")
    return body


def _dump(value: object, default: Default | None) -> bytes | None:
    try:
        return _encoder(default).encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=8)
def _encoder(default: Default | None) -> json.JSONEncoder:
    return json.JSONEncoder(
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=lambda unknown: _replace(unknown, default),
    )


def _is_plain(value: object, max_depth: int) -> bool:
    """Tell whether all keys are strings and no branch is deeper than `max_depth`, level by level."""
    level: list[Any] = [value] if isinstance(value, _CONTAINERS) else []
    while level and max_depth:
        max_depth -= 1
        below = []
        for node in level:
            if isinstance(node, dict):
                try:
                    "".join(node)  # the fastest proof that every key is a string
                except TypeError:
                    return False
                node = node.values()
            for child in node:  # a comprehension per node costs a third more
                if isinstance(child, _CONTAINERS):
                    below.append(child)
        level = below
    return not level


def _replace(value: object, default: Default | None) -> str | int | float | None:
    for kind, convert in _CONVERTERS:
        if isinstance(value, kind):
            return convert(value)
    replacement = None if default is None else default(value)
    if default is None or not isinstance(replacement, _SCALARS):
        raise TypeError
    return replacement


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise _Unfit("NaN and Infinity are no JSON numbers")
    return str(value)


def _datetime(value: datetime) -> str:
    if value.utcoffset() is None:
        raise _Unfit("a naive datetime names no moment; give it a time zone")
    text = value.isoformat()
    if value.microsecond:
        text = text[:23] + text[26:]
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _time(value: time) -> str:
    if value.utcoffset() is not None:
        raise _Unfit("a time of day with a time zone has no JSON form")
    return value.isoformat()[:12]


def _duration(value: timedelta) -> str:
    sign, value = ("-", -value) if value < timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06d}" if value.microseconds else ""
    return f"{sign}P{value.days}DT{hours:02d}H{minutes:02d}M{seconds:02d}{fraction}S"


# Order matters: a datetime is a date.
_CONVERTERS: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (Decimal, _decimal),
    (UUID, str),
    (datetime, _datetime),
    (date, date.isoformat),
    (time, _time),
    (timedelta, _duration),
)


class _Search:
    """Walks a value in document order and raises PayloadError at the first part that cannot travel."""

    def __init__(self, default: Default | None, max_depth: int) -> None:
        self._default = default
        self._max_depth = max_depth
        self._open: set[int] = set()

    def visit(self, value: object, path: tuple[object, ...]) -> None:
        if not isinstance(value, _CONTAINERS):
            _refuse(self._scalar_fault(value), path)
            return
        _refuse(self._nesting_fault(value, path), path)
        self._open.add(id(value))
        self._visit_children(value, path)
        self._open.remove(id(value))

    def _visit_children(self, value: Any, path: tuple[object, ...]) -> None:
        if isinstance(value, dict):
            _check_keys(value, path)
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            self.visit(child, (*path, key))

    def _nesting_fault(self, value: object, path: Sequence[object]) -> str | None:
        if id(value) in self._open:
            return "contains itself"
        return f"is nested deeper than {MAX_DEPTH} levels" if len(path) >= self._max_depth else None

    def _scalar_fault(self, value: object) -> str | None:
        if isinstance(value, _SCALARS):
            return _scalar_fault(value)
        try:
            return _scalar_fault(_replace(value, self._default))
        except _Unfit as fault:
            return str(fault)
        except (TypeError, ValueError, RecursionError):
            return f"a value of type {type(value).__qualname__} has no JSON form"


def _check_keys(value: dict[Any, Any], path: tuple[object, ...]) -> None:
    written = set()
    for key in value:
        text = _key_text(key)
        fault = (
            "a key is neither text, a writable integer, a boolean nor null"
            if text is None
            else _text_fault(text)
        )
        _refuse(fault or ("two keys are equal once written" if text in written else None), (*path, key))
        written.add(text)


def _key_text(key: object) -> str | None:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return _CONSTANT_KEYS[key]
    if isinstance(key, int):
        return _digits(key)
    return None


def _scalar_fault(value: str | int | float | None) -> str | None:
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, float):
        return None if isfinite(value) else "NaN and Infinity are no JSON numbers"
    if isinstance(value, int) and _digits(value) is None:
        return "an integer has too many digits"
    return None


def _text_fault(text: str) -> str | None:
    if "\0" in text:
        return "contains the character NUL (U+0000)"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "contains a lone surrogate (U+D800 to U+DFFF)"
    return None


def _digits(value: int) -> str | None:
    try:
        return int.__repr__(value)
    except ValueError:
        return None


def _refuse(fault: str | None, path: Sequence[object]) -> None:
    if fault is not None:
        raise PayloadError("".join(f"/{_segment(key)}" for key in path), fault)


def _segment(key: object) -> str:
    """Return a step of a JSON Pointer that is safe to log and to send: printable and short."""
    text = key if isinstance(key, str) else _key_text(key) or type(key).__qualname__
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:_SHOWN])
    return shown.replace("~", "~0").replace("/", "~1") + ("…" if len(text) > _SHOWN else "")
