"""Secrets at rest: `whs1.{kid}.{nonce}.{ciphertext}`, AES-256-GCM bound to table, column and row.

`kid` names the master key: the first 8 bytes of its SHA-256 in hex. Nonce and ciphertext (with the 16-byte
tag) are base64url without padding. A text moved to another row or column does not open (NIST SP 800-38D).
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION: Final = "whs1"
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12

_SEALED: Final = re.compile(r"whs1\.([0-9a-f]{16})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{22,})")


class SealingError(ValueError):
    """Why a text was not sealed or opened, as a `code`; never with a key, a secret or the text.

    `bad_key` `bad_nonce` `bad_context` (ours) · `malformed` · `unknown_key` (no key of the ring has that
    kid) · `unreadable` (changed, or sealed for another row or column).
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def aad(table: str, column: str, row_id: str | int) -> bytes:
    """Return the associated data `whs1|table|column|row id`. Raises SealingError for a `|` in a name."""
    if "|" in table or "|" in column:
        raise SealingError("bad_context")
    return f"{VERSION}|{table}|{column}|{row_id}".encode()


def kid_of(key: bytes) -> str:
    """Return the id of a master key."""
    return hashlib.sha256(key).digest()[:8].hex()


class Keyring:
    """Master keys of 32 bytes: the first seals, all open. Its ciphers are made once and shared by threads."""

    __slots__ = ("_ciphers", "kid")

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Raise SealingError `bad_key` when there is no key or one is not 32 bytes long."""
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise SealingError("bad_key")
        self.kid = kid_of(keys[0])
        self._ciphers = {kid_of(key): AESGCM(key) for key in keys}

    def __repr__(self) -> str:
        return f"<Keyring {', '.join(self._ciphers)}>"

    def seal(self, plaintext: bytes, aad: bytes, nonce: bytes) -> str:
        """Return `plaintext` sealed for `aad`; `nonce` is 12 random bytes, new for every call."""
        if len(nonce) != NONCE_BYTES:
            raise SealingError("bad_nonce")
        ciphertext = self._ciphers[self.kid].encrypt(nonce, plaintext, aad)
        return f"{VERSION}.{self.kid}.{_to_text(nonce)}.{_to_text(ciphertext)}"

    def open(self, text: str, aad: bytes) -> bytes:
        """Return the plaintext. Raises SealingError: `malformed`, `unknown_key` or `unreadable`."""
        kid, nonce, ciphertext = _split(text)
        cipher = self._ciphers.get(kid)
        if cipher is None:
            raise SealingError("unknown_key")
        try:
            return cipher.decrypt(nonce, ciphertext, aad)
        except InvalidTag:
            raise SealingError("unreadable") from None


def _split(text: str) -> tuple[str, bytes, bytes]:
    match = _SEALED.fullmatch(text)
    if match is None:
        raise SealingError("malformed")
    return match[1], _from_text(match[2]), _from_text(match[3])


def _to_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _from_text(text: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise SealingError("malformed") from None
    if _to_text(raw) != text:  # left-over bits would give one ciphertext several spellings
        raise SealingError("malformed")
    return raw
