"""Secrets at rest: the keyring of the setting MASTER_KEYS, and what each sealed value is bound to.

Every sealed column has a pair of functions here. The associated data names table, column and row, so a text
copied to another endpoint, another version or another header does not open (core.sealing).
"""

import os
from functools import lru_cache

from ..conf import current
from ..core.sealing import NONCE_BYTES, Keyring, SealingError, aad
from ..exceptions import ConfigurationError


def keyring() -> Keyring:
    """Return the keyring; its first key seals, all open.

    Raises SealingError `bad_key` when MASTER_KEYS is empty.
    """
    return _keyring(current().MASTER_KEYS)


@lru_cache(maxsize=4)
def _keyring(keys: tuple[bytes, ...]) -> Keyring:
    return Keyring(keys)


def seal_secret(endpoint_public_id: str, version: int, secret: str) -> str:
    """Return a signing secret sealed for its row. Raises ConfigurationError when MASTER_KEYS is empty."""
    return _seal(secret, _secret_row(endpoint_public_id, version))


def open_secret(endpoint_public_id: str, version: int, sealed: str) -> str:
    """Return a signing secret. Raises SealingError."""
    return _open(sealed, _secret_row(endpoint_public_id, version))


def seal_header(endpoint_public_id: str, name: str, value: str) -> str:
    """Return the value of a secret header sealed for this endpoint and header. Raises ConfigurationError."""
    return _seal(value, _header_row(endpoint_public_id, name))


def open_header(endpoint_public_id: str, name: str, sealed: str) -> str:
    """Return the value of a secret header. Raises SealingError."""
    return _open(sealed, _header_row(endpoint_public_id, name))


def _secret_row(endpoint_public_id: str, version: int) -> bytes:
    return aad("webhooks_app_endpointsecret", "sealed", f"{endpoint_public_id}/{version}")


def _header_row(endpoint_public_id: str, name: str) -> bytes:
    return aad("webhooks_app_endpoint", "headers", f"{endpoint_public_id}/{name.lower()}")


def sealing_keyring() -> Keyring:
    """Return the keyring for sealing. Raises ConfigurationError when MASTER_KEYS is empty."""
    try:
        return keyring()
    except SealingError:
        message = 'WEBHOOKS["MASTER_KEYS"] is empty, so nothing can be sealed; see `manage.py check`'
        raise ConfigurationError(message) from None


def _seal(plaintext: str, row: bytes) -> str:
    return sealing_keyring().seal(plaintext.encode(), row, os.urandom(NONCE_BYTES))


def _open(sealed: str, row: bytes) -> str:
    return keyring().open(sealed, row).decode()
