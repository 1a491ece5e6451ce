"""Sealing: opens for its own row, column and key alone, and never shows a key."""

import base64
import copy
import hashlib
import pickle
import string

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.sealing import Keyring, SealingError, aad, kid_of

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
NONCE = bytes(range(12))
HERE = aad("webhooks_app_endpointsecret", "sealed_key", "whk_01JZ8QK3T7V9X2B4D6F8H0J2M4")
RING = Keyring([NEW, OLD])


def code_of(ring: Keyring, text: str, context: bytes = HERE) -> str:
    with pytest.raises(SealingError) as raised:
        ring.open(text, context)
    assert str(raised.value) == raised.value.code
    return raised.value.code


def test_the_text_form_is_readable_by_anybody_with_the_key() -> None:
    text = RING.seal(b"secret", HERE, NONCE)
    version, kid, nonce, ciphertext = text.split(".")
    raw = [base64.urlsafe_b64decode(part + "==") for part in (nonce, ciphertext)]
    assert (version, kid, raw[0]) == ("whs1", hashlib.sha256(NEW).hexdigest()[:16], NONCE)
    context = b"whs1|webhooks_app_endpointsecret|sealed_key|whk_01JZ8QK3T7V9X2B4D6F8H0J2M4"
    assert AESGCM(NEW).decrypt(raw[0], raw[1], context) == b"secret"
    assert "=" not in text


def test_the_form_never_changes() -> None:
    text = "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.NGe1aaCR96jd52ZCY9BYThIIgWpEBw"
    assert Keyring([OLD]).seal(b"secret", b"whs1|t|c|1", NONCE) == text
    assert Keyring([OLD]).open(text, aad("t", "c", 1)) == b"secret"


@given(st.binary(), st.binary(max_size=60), st.binary(min_size=12, max_size=12))
def test_what_is_sealed_opens(plaintext: bytes, context: bytes, nonce: bytes) -> None:
    assert RING.open(RING.seal(plaintext, context, nonce), context) == plaintext


def test_the_first_key_seals_and_all_open() -> None:
    sealed = Keyring([OLD]).seal(b"secret", HERE, NONCE)
    assert RING.open(sealed, HERE) == b"secret"
    assert RING.kid == kid_of(NEW)
    assert f".{kid_of(OLD)}." in sealed
    assert f".{RING.kid}." in RING.seal(b"secret", HERE, NONCE)
    assert code_of(Keyring([NEW]), sealed) == "unknown_key"


def test_b072_a_text_moved_elsewhere_does_not_open() -> None:
    sealed = RING.seal(b"secret", aad("t", "current", 1), NONCE)
    for table, column, row in (("t", "current", 2), ("t", "previous", 1), ("u", "current", 1)):
        assert code_of(RING, sealed, aad(table, column, row)) == "unreadable"
    assert RING.open(sealed, aad("t", "current", "1")) == b"secret"


@given(st.data())
def test_no_changed_character_goes_unseen(data: st.DataObject) -> None:
    sealed = RING.seal(b"secret", HERE, NONCE)
    at = data.draw(st.integers(0, len(sealed) - 1))
    new = data.draw(st.characters().filter(lambda c: c != sealed[at]))
    assert code_of(RING, sealed[:at] + new + sealed[at + 1 :]) in {"malformed", "unknown_key", "unreadable"}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_left_over_bits_do_not_give_one_ciphertext_several_spellings(size: int) -> None:
    sealed = RING.seal(bytes(size), HERE, NONCE)
    alphabet = string.ascii_letters + string.digits + "-_"
    for last in sorted(set(alphabet) - {sealed[-1]}):
        assert code_of(RING, sealed[:-1] + last) in {"malformed", "unreadable"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whs1",
        "whs1...",
        "secret",
        "whs2.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1HvYjQ",
        "whs1.630DCD2966C43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1HvYjQ",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1HvYjQ==",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1HvYjQ\n",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1HvYj",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm+VHb1HvYjQ",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQ.MCDKsLEJXuzxRPQRZGtm-VHb1HvYjQ",
        "whs1.630dcd2966c43366.AAECAwQFBgcICQoL.MCDKsLEJXuzxRPQRZGtm-VHb1",
    ],
)
def test_other_texts_are_malformed(text: str) -> None:
    assert code_of(Keyring([OLD]), text) == "malformed"


@given(
    st.text() | st.from_regex(r"whs1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{0,60}", fullmatch=True)
)
def test_hostile_text_gives_a_sealing_error_only(text: str) -> None:
    assert code_of(RING, text) in {"malformed", "unknown_key"}


@pytest.mark.parametrize("keys", [[], [b""], [bytes(16)], [bytes(31)], [bytes(33)], [NEW, bytes(24)]])
def test_keys_have_32_bytes(keys: list[bytes]) -> None:
    with pytest.raises(SealingError, match="bad_key"):
        Keyring(keys)


@pytest.mark.parametrize("size", [0, 8, 11, 13, 16])
def test_a_nonce_has_12_bytes(size: int) -> None:
    with pytest.raises(SealingError, match="bad_nonce"):
        RING.seal(b"secret", HERE, bytes(size))


def test_contexts_cannot_be_confused() -> None:
    for table, column in (("a|b", "c"), ("a", "b|c")):
        with pytest.raises(SealingError, match="bad_context"):
            aad(table, column, 1)


def test_no_key_is_shown() -> None:
    shown = repr(RING) + str(RING) + repr([RING])
    assert RING.kid in shown
    for key in (OLD, NEW):
        assert repr(key)[2:-1] not in shown
        assert key.hex() not in shown
        assert base64.b64encode(key).decode() not in shown


def test_a_ring_cannot_be_pickled_or_copied_by_accident() -> None:
    for duplicate in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            duplicate(RING)
