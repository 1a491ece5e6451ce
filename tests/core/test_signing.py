"""Signatures: the published vectors, the official libraries, and requests made to mislead."""

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st
from svix.webhooks import Webhook as Svix

from webhooks_app.core import secrets
from webhooks_app.core.headers import ID, SIGNATURE, TIMESTAMP
from webhooks_app.core.signing import MAX_SIGNATURES, SignatureError, SigningError, SigningKey, sign, verify

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "signature_vectors.json").read_text("utf-8"))
SECRET = "whsec_xwq+xFcBOJxPNMbd8PqIxg27fH2uj4GZCOgXfxjruu0="
OTHER = "whsec_9zuMOALU5MDWfv8qBIUD4gPBR1VOwF/WMWbekGufKXASJKfxtPZra14YokD6R3t9KKjcBiiYhruOygHafUF7NA=="
EVENT = "evt_01JZ8QK3T7V9X2B4D6F8H0J2M4"
NOW = 1_700_000_000
BODY = '{"emoji":"😊","line":"\u2028","escape":"\\u001B"}'.encode()


def of_kind(kind: str) -> Any:
    found = [vector for vector in VECTORS["vectors"] if vector["kind"] == kind]
    assert found
    return pytest.mark.parametrize("vector", found, ids=[vector["id"] for vector in found])


def key(secret: str = SECRET) -> SigningKey:
    return SigningKey(secrets.parse(secret))


def signed(*keys: SigningKey, id: str = EVENT, timestamp: int = NOW, body: bytes = BODY) -> dict[str, str]:
    signature = sign(keys or (key(),), id=id, timestamp=timestamp, body=body)
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: signature}


def code_of(headers: Any, body: bytes = BODY, *, now: int = NOW) -> str:
    with pytest.raises(SignatureError) as raised:
        verify((key(),), headers, body, now=now)
    return raised.value.code


@of_kind("v1")
def test_published_signatures_are_ours(vector: dict[str, Any]) -> None:
    given_key = key(vector["secret"])
    body = base64.b64decode(vector["body_b64"])
    header = sign((given_key,), id=vector["webhook_id"], timestamp=vector["timestamp"], body=body)
    assert header == vector["signature"]
    headers = {ID: vector["webhook_id"], TIMESTAMP: str(vector["timestamp"]), SIGNATURE: header}
    assert verify((given_key,), headers, body, now=vector["timestamp"]) is given_key


@of_kind("v1-rotation")
def test_both_keys_of_a_rotation_verify_newest_first(vector: dict[str, Any]) -> None:
    new, old = key(vector["secret_current"]), key(vector["secret_previous"])
    body = base64.b64decode(vector["body_b64"])
    headers = signed(new, old, id=vector["webhook_id"], timestamp=vector["timestamp"], body=body)
    assert headers[SIGNATURE] == vector["header"]
    for one in (new, old):
        assert verify((one,), headers, body, now=vector["timestamp"]) is one


@of_kind("verify")
def test_published_verdicts_are_ours(vector: dict[str, Any]) -> None:
    body, now = base64.b64decode(vector["body_b64"]), vector["now"]
    given_key = key(vector["secret"])
    if vector["expect"] == "reject":
        with pytest.raises(SignatureError):
            verify((given_key,), vector["headers"], body, now=now)
    else:
        assert verify((given_key,), vector["headers"], body, now=now) is given_key


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, Svix])
def test_the_official_libraries_accept_what_we_sign(library: Callable[[str], Any]) -> None:
    headers = signed(key(), key(OTHER), timestamp=int(time.time()))
    for secret in (SECRET, OTHER):
        library(secret).verify(BODY, headers)


@given(
    st.binary(min_size=24, max_size=64), st.text(st.characters(codec="utf-8")), st.integers(0, 4_102_444_800)
)
def test_we_sign_like_the_official_library(raw: bytes, text: str, timestamp: int) -> None:
    official = standardwebhooks.Webhook(raw).sign(EVENT, datetime.fromtimestamp(timestamp, UTC), text)
    assert sign((SigningKey(raw),), id=EVENT, timestamp=timestamp, body=text.encode()) == official


@given(st.binary(), st.binary(), st.integers(0, 10**12 - 1))
def test_a_signature_holds_for_its_body_alone(body: bytes, other: bytes, timestamp: int) -> None:
    headers = signed(timestamp=timestamp, body=body)
    assert verify((key(),), headers, body, now=timestamp)
    if other != body:
        assert code_of(headers, other, now=timestamp) == "no_match"


def test_several_keys_give_one_line_with_single_spaces() -> None:
    parts = signed(key(), key(OTHER))[SIGNATURE].split(" ")
    assert parts == [signed(key())[SIGNATURE], signed(key(OTHER))[SIGNATURE]]


@pytest.mark.parametrize("timestamp", [True, 1.0, "1700000000", datetime(2026, 1, 1, tzinfo=UTC), None])
def test_a_timestamp_is_an_int(timestamp: Any) -> None:
    with pytest.raises(TypeError, match="seconds"):
        sign((key(),), id=EVENT, timestamp=timestamp, body=b"")


@pytest.mark.parametrize("id", ["", "a.b", ".", "a b", "a\n", "é", "\ud800", "x" * 257])
def test_ids_that_could_mislead_are_not_signed(id: str) -> None:
    with pytest.raises(SigningError, match="bad_id"):
        sign((key(),), id=id, timestamp=NOW, body=b"")


def test_nothing_is_signed_without_a_key_or_before_1970() -> None:
    with pytest.raises(SigningError, match="no_key"):
        sign((), id=EVENT, timestamp=NOW, body=b"")
    with pytest.raises(SigningError, match="bad_timestamp"):
        sign((key(),), id=EVENT, timestamp=-1, body=b"")


@pytest.mark.parametrize("size", [0, 1, 23, 65])
def test_b065_a_key_of_another_size_never_signs(size: int) -> None:
    with pytest.raises(SigningError, match="bad_key"):
        SigningKey(bytes(size))


def test_a_version_we_do_not_know_never_signs() -> None:
    with pytest.raises(SigningError, match="unknown_version"):
        SigningKey(bytes(32), "v2")


def test_no_key_is_shown() -> None:
    shown = repr(SigningKey(b"hunter2" * 5))
    assert "hunter2" not in shown
    assert "v1" in shown


@pytest.mark.parametrize(
    ("now", "code"),
    [(NOW - 301, "too_new"), (NOW - 300, ""), (NOW - 299, ""), (NOW + 299, ""), (NOW + 301, "too_old")],
)
def test_b069_five_minutes_either_way(now: int, code: str) -> None:
    if code:
        assert code_of(signed(), now=now) == code
    else:
        assert verify((key(),), signed(), BODY, now=now)


def test_b046_a_late_retry_signed_anew_still_verifies() -> None:
    retried = signed(timestamp=NOW + 9000)
    assert retried[ID] == signed()[ID]
    assert verify((key(),), retried, BODY, now=NOW + 9001)
    assert code_of(signed(), now=NOW + 9001) == "too_old"


@pytest.mark.parametrize(
    "timestamp",
    [
        "1700000000.0",
        "1700000000000",
        "123abc",
        "1e9",
        "+1700000000",
        "-1",
        " 1700000000",
        "1700000000\n",
        "1_700_000_000",
        "0x6553f100",
        "١٧٠٠٠٠٠٠٠٠",
        "１７００００００００",
        "1" * 5000,
        "NaN",
    ],
)
def test_b069_a_timestamp_is_plain_ascii_digits(timestamp: str) -> None:
    assert code_of(signed() | {TIMESTAMP: timestamp}) == "bad_timestamp"


@pytest.mark.parametrize("name", [ID, TIMESTAMP, SIGNATURE])
def test_each_header_is_there_exactly_once(name: str) -> None:
    headers = signed()
    assert code_of({k: v for k, v in headers.items() if k != name}) == "missing_header"
    assert code_of(headers | {name: ""}) == "missing_header"
    assert code_of(headers | {name.upper(): headers[name]}) == "repeated_header"


def test_header_names_are_matched_in_any_case() -> None:
    assert verify((key(),), {name.title(): value for name, value in signed().items()}, BODY, now=NOW)


def test_moved_dots_do_not_give_another_message_the_same_signature() -> None:
    headers = signed(id="evt", body=b"1.{}")
    assert code_of(headers | {ID: f"evt.{NOW}", TIMESTAMP: "1"}, b"{}", now=1) == "bad_id"


def test_signatures_we_cannot_read_are_passed_over() -> None:
    good = signed()[SIGNATURE]
    noise = f"v9,AAAA v1 v1, v1,=== v1,{good[3:-1]}é v1a,AAAA  , {good}"
    assert verify((key(),), signed() | {SIGNATURE: noise}, BODY, now=NOW)
    assert code_of(signed() | {SIGNATURE: noise.removesuffix(good)}) == "no_match"


@pytest.mark.parametrize("junk", ["!", "!!!!", "\n", "\t", "-", "="])
def test_a_signature_is_strict_base64(junk: str) -> None:
    header = signed()[SIGNATURE]
    assert code_of(signed() | {SIGNATURE: header.replace(",", f",{junk}")}) == "no_match"


@pytest.mark.parametrize("change", ["v2", "V1", "v1 ", "\tv1", "v1a", ""])
def test_a_signature_counts_for_its_version_alone(change: str) -> None:
    header = signed()[SIGNATURE].replace("v1", change, 1)
    assert code_of(signed() | {SIGNATURE: header}) == "no_match"


def test_a_flood_of_signatures_is_refused() -> None:
    good = signed()[SIGNATURE]
    flood = " ".join(["v1,AAAA"] * (MAX_SIGNATURES - 1) + [good])
    assert verify((key(),), signed() | {SIGNATURE: flood}, BODY, now=NOW)
    assert code_of(signed() | {SIGNATURE: f"v1,AAAA {flood}"}) == "too_many_signatures"


def test_the_key_that_matched_is_returned() -> None:
    first, second = key(OTHER), key()
    assert verify((first, second), signed(), BODY, now=NOW) is second


HOSTILE = st.text() | st.sampled_from([EVENT, str(NOW), "v1,", "v1,AAAA"])


@given(
    st.dictionaries(st.sampled_from([ID, TIMESTAMP, SIGNATURE, "Webhook-Id"]) | st.text(), HOSTILE),
    st.binary(),
)
def test_hostile_requests_give_a_signature_error_only(headers: dict[str, str], body: bytes) -> None:
    assert code_of(headers, body)


@given(HOSTILE, st.text())
def test_hostile_signatures_give_a_signature_error_only(signature: str, id: str) -> None:
    assert code_of(signed() | {SIGNATURE: signature})
    assert code_of(signed() | {ID: id})
