"""Secrets: one spelling per key, everything else refused without showing it."""

import base64
import json
from pathlib import Path

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core import secrets

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "signature_vectors.json").read_text("utf-8"))
GOOD = sorted({v["secret"] for v in VECTORS["vectors"] if v["kind"] == "v1"})
BAD = {v["id"]: v["secret"] for v in VECTORS["vectors"] if v["kind"] == "v1-bad-secret"}
SECRET = "whsec_xwq+xFcBOJxPNMbd8PqIxg27fH2uj4GZCOgXfxjruu0="
KEYS = st.binary(min_size=24, max_size=64)


@given(KEYS)
def test_a_secret_gives_its_key_back(key: bytes) -> None:
    text = secrets.generate_from(key)
    assert text == "whsec_" + base64.b64encode(key).decode()
    assert secrets.parse(text) == key
    assert secrets.canonical(f"\t {text}\r\n") == text


@given(KEYS)
def test_the_official_library_reads_the_same_key(key: bytes) -> None:
    webhook = standardwebhooks.Webhook(secrets.generate_from(key))
    assert vars(webhook)["_whsecret"] == key


@pytest.mark.parametrize("text", GOOD)
def test_published_secrets_are_taken(text: str) -> None:
    assert secrets.canonical(text) == text


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_published_bad_secrets_are_refused(text: str) -> None:
    with pytest.raises(secrets.SecretError):
        secrets.parse(text)


@pytest.mark.parametrize("size", [0, 1, 23, 65, 100])
def test_keys_too_short_or_too_long_are_refused_both_ways(size: int) -> None:
    with pytest.raises(secrets.SecretError):
        secrets.generate_from(bytes(size))
    with pytest.raises(secrets.SecretError):
        secrets.parse("whsec_" + base64.b64encode(bytes(size)).decode())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="B065 empty"),
        pytest.param("whsec_", id="B065 prefix alone"),
        pytest.param("whsec_====", id="B065 padding alone"),
        pytest.param(SECRET.removeprefix("whsec_"), id="no prefix"),
        pytest.param("v1," + SECRET, id="B064 version in front"),
        pytest.param("whsec_" + SECRET, id="B064 doubled prefix"),
        pytest.param(SECRET.removesuffix("="), id="B064 missing padding"),
        pytest.param(SECRET + "=", id="too much padding"),
        pytest.param(SECRET.replace("+", "-"), id="url-safe alphabet"),
        pytest.param(SECRET.replace("xw", "xw "), id="B064 space inside"),
        pytest.param(SECRET.replace("xw", "xw\n"), id="newline inside"),
        pytest.param("whsec_ " + SECRET.removeprefix("whsec_"), id="space behind the prefix"),
        pytest.param(SECRET.replace("uu0=", "uu1="), id="left-over bits"),
        pytest.param(SECRET.replace("xwq", "x!!wq"), id="B064 foreign characters"),
        pytest.param(SECRET.upper(), id="upper-case prefix"),
        pytest.param("WHSEC_" + SECRET.removeprefix("whsec_"), id="upper-case prefix alone"),
        pytest.param("whsk_" + SECRET.removeprefix("whsec_"), id="private key's prefix"),
        pytest.param(SECRET + "\0", id="NUL"),
        pytest.param(SECRET.replace("x", "é", 1), id="not ASCII"),
        pytest.param(SECRET.replace("x", "\ud800", 1), id="lone surrogate"),
        pytest.param("whsec_" + "A" * 10_000_000, id="huge"),
        pytest.param(None, id="None"),
        pytest.param(SECRET.encode(), id="bytes"),
    ],
)
def test_other_spellings_are_refused_without_showing_them(text: object) -> None:
    with pytest.raises(secrets.SecretError) as raised:
        secrets.parse(text)  # type: ignore[arg-type]
    assert "xwq" not in str(raised.value)
    assert raised.value.code == "invalid_secret"


@given(st.text() | st.text().map("whsec_".__add__))
def test_text_is_a_canonical_secret_or_a_secret_error(text: str) -> None:
    try:
        canonical = secrets.canonical(text)
    except secrets.SecretError:
        return
    assert canonical == text.strip()
