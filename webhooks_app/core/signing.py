"""Standard Webhooks signatures over `{id}.{timestamp}.{body}`, made and checked.

A key carries the version it signs for, so one header may mix versions while an endpoint changes over.
`v1` is HMAC-SHA256; a further version is one more row of `_SCHEMES`.
Source of every rule: Standard Webhooks 1.0.0, "Signature scheme" and "Webhook headers".
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from . import secrets
from .headers import ID, SIGNATURE, TIMESTAMP

TOLERANCE: Final = 300
MAX_SIGNATURES: Final = 20

# Visible ASCII without the dot that separates the parts of the signed content.
_MESSAGE_ID: Final = re.compile(r"[!-\-/-~]{1,256}")
_TIMESTAMP: Final = re.compile(r"[0-9]{1,12}")


class _Scheme(NamedTuple):
    key_bytes: range
    sign: Callable[[bytes, bytes], bytes]
    matches: Callable[[bytes, bytes, bytes], bool]


def _hmac_sign(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256")


def _hmac_matches(key: bytes, content: bytes, signature: bytes) -> bool:
    return hmac.compare_digest(_hmac_sign(key, content), signature)


_SCHEMES: Final[Mapping[str, _Scheme]] = {
    "v1": _Scheme(range(secrets.MIN_BYTES, secrets.MAX_BYTES + 1), _hmac_sign, _hmac_matches),
}


class SigningError(ValueError):
    """What cannot be signed, as a `code`: `unknown_version` `bad_key` `no_key` `bad_id` `bad_timestamp`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class SignatureError(ValueError):
    """Why a request is not authentic, as a `code`.

    `missing_header` `repeated_header` `bad_id` `bad_timestamp` `too_old` `too_new` `too_many_signatures`
    `no_match`.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key of an endpoint: the version it signs for and its bytes, which are never shown.

    Raises SigningError for an unknown version and for a key too short or too long, the empty one included.
    """

    secret: bytes = field(repr=False)
    version: str = "v1"

    def __post_init__(self) -> None:
        scheme = _SCHEMES.get(self.version)
        if scheme is None:
            raise SigningError("unknown_version")
        if len(self.secret) not in scheme.key_bytes:
            raise SigningError("bad_key")


def sign(keys: Sequence[SigningKey], *, id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature for each key, in order, newest first.

    `timestamp` is the time of this attempt in whole seconds since 1970. Raises TypeError when it is no int,
    SigningError when there is no key, when `id` is empty, not visible ASCII or has a dot, and for a time
    before 1970.
    """
    if type(timestamp) is not int:
        raise TypeError("timestamp is whole seconds since 1970, an int")
    if not keys:
        raise SigningError("no_key")
    if not _MESSAGE_ID.fullmatch(id):
        raise SigningError("bad_id")
    if timestamp < 0:
        raise SigningError("bad_timestamp")
    content = b"%b.%d.%b" % (id.encode("ascii"), timestamp, body)
    return " ".join([_signature(key, content) for key in keys])


def verify(
    keys: Sequence[SigningKey],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: int,
    tolerance: int = TOLERANCE,
) -> SigningKey:
    """Return the key that signed a request; compares in constant time.

    `headers` are matched without regard to case, `body` is the bytes as they travelled, `now` and
    `tolerance` are seconds. Signatures of unknown versions and malformed ones are passed over. Raises
    SignatureError, and nothing else whatever the headers hold.
    """
    id, timestamp, signature = (_only(headers, name) for name in (ID, TIMESTAMP, SIGNATURE))
    _check_stamp(id, timestamp, now, tolerance)
    content = b"%b.%b.%b" % (id.encode("ascii"), timestamp.encode("ascii"), body)
    for version, raw in _signatures(signature):
        for key in keys:
            if key.version == version and _SCHEMES[version].matches(key.secret, content, raw):
                return key
    raise SignatureError("no_match")


def _signature(key: SigningKey, content: bytes) -> str:
    raw = _SCHEMES[key.version].sign(key.secret, content)
    return f"{key.version},{binascii.b2a_base64(raw, newline=False).decode('ascii')}"


def _only(headers: Mapping[str, str], name: str) -> str:
    found = [value for given, value in headers.items() if given.lower() == name]
    if len(found) > 1:
        raise SignatureError("repeated_header")
    if not found or not found[0]:
        raise SignatureError("missing_header")
    return found[0]


def _check_stamp(id: str, timestamp: str, now: int, tolerance: int) -> None:
    if not _MESSAGE_ID.fullmatch(id):
        raise SignatureError("bad_id")
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureError("bad_timestamp")
    age = now - int(timestamp)
    if abs(age) > tolerance:
        raise SignatureError("too_old" if age > 0 else "too_new")


def _signatures(header: str) -> list[tuple[str, bytes]]:
    parts = header.split(" ")
    if len(parts) > MAX_SIGNATURES:
        raise SignatureError("too_many_signatures")
    split = [part.partition(",") for part in parts]
    return [(version, _decode(text)) for version, _, text in split if version in _SCHEMES]


def _decode(text: str) -> bytes:
    """Return the bytes of a signature; b"", which matches none, when it is not strict base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
