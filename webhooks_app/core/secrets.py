"""Symmetric webhook secrets: `whsec_` and standard, padded base64 of 24 to 64 bytes.

Standard Webhooks 1.0.0, "Signature scheme": the key is the decoded bytes, not the text.
"""

import base64
import binascii
from typing import Final

PREFIX: Final = "whsec_"
MIN_BYTES: Final = 24
MAX_BYTES: Final = 64

_LONGEST: Final = len(PREFIX) + 4 * -(-MAX_BYTES // 3)


class SecretError(ValueError):
    """A text that is no webhook secret; the message never holds any of it."""

    code = "invalid_secret"


def generate_from(random: bytes) -> str:
    """Return the secret of `random`: 24 to 64 bytes from a cryptographic source, 32 for new endpoints.

    Raises SecretError for another length.
    """
    if not MIN_BYTES <= len(random) <= MAX_BYTES:
        raise SecretError(f"a secret holds {MIN_BYTES} to {MAX_BYTES} bytes")
    return PREFIX + base64.b64encode(random).decode("ascii")


def parse(text: str) -> bytes:
    """Return the key of a secret, white space around it ignored.

    Raises SecretError for everything but `generate_from`'s form: another, a missing or a doubled prefix, the
    url-safe alphabet, missing padding, white space inside, left-over bits, and keys too short or too long.
    """
    secret = text.strip() if isinstance(text, str) else ""
    if not secret.startswith(PREFIX):
        raise SecretError(f"a secret starts with {PREFIX}")
    key = _decode(secret) if len(secret) <= _LONGEST else b""
    # Encoding again is the strictest check there is: one key has one spelling.
    if generate_from(key) != secret:
        raise SecretError("a secret is standard base64 with its padding")
    return key


def canonical(text: str) -> str:
    """Return the one spelling of a secret, to store and to show. Raises SecretError like `parse`."""
    return generate_from(parse(text))


def _decode(secret: str) -> bytes:
    try:
        return base64.b64decode(secret[len(PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        raise SecretError("a secret is standard base64 with its padding") from None
