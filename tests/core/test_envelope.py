"""The envelope: golden bytes, the hole for the sequence, the size limit and times."""

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core import envelope

GOLDEN = json.loads((Path(__file__).parents[1] / "vectors" / "envelopes.json").read_text("utf-8"))
NOON = datetime(2026, 10, 9, 12, 0, 0, 123999, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=2))
FIELDS: dict[str, Any] = {
    "id": "evt_01JZ8QK3T7V9X2B4D6F8H0J2M4",
    "type": "order.paid",
    "api_version": "2026-10-01",
    "occurred_at": NOON,
    "tenant_id": "acme",
    "identity_id": None,
    "max_bytes": 262_144,
}
INPUTS: dict[str, dict[str, Any]] = {
    "plain": {
        "identity_id": "usr_7",
        "sequence": 42,
        "data": {
            "order": {"id": 7, "lines": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}]},
            "paid": True,
            "note": None,
        },
    },
    "platform": {
        "type": "webhook.disabled",
        "occurred_at": datetime(2026, 10, 9, 14, 0, tzinfo=BERLIN),
        "tenant_id": None,
        "sequence": None,
        "data": {},
    },
    "text": {
        "tenant_id": 'Zoë "&" <Söhne>',
        "sequence": 1,
        "data": {
            "emoji": "\U0001f60a",
            "line": "a\u2028b",
            "escape": "\x1b[0m",
            "literal": "\\u0000",
            "slash": "a/b\\c",
            "breaks": "\r\n\t",
            "del": "\x7f",
            "Ключ": "値",
        },
    },
    "values": {
        "sequence": 2**63 - 1,
        "data": {
            "big": 2**53 + 1,
            "amount": Decimal("1.10"),
            "float": 0.1,
            "exp": 1e22,
            "uuid": UUID("0b6f6d2e-6d7c-4b0a-9a53-2f8f5a0f6c11"),
            "whole": datetime(2026, 10, 9, 12, tzinfo=UTC),
            "micro": NOON,
            "zone": datetime(2026, 10, 9, 14, 0, 0, 500_000, tzinfo=BERLIN),
            "day": date(2026, 10, 9),
            "time": time(12, 30, 0, 500_000),
            "took": timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5),
            "keys": {2: "int", True: "bool", None: "none"},
            "pair": (1, 2),
        },
    },
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def build(**changes: Any) -> bytes:
    return envelope.build(**(FIELDS | {"sequence": 1, "data": {}} | changes))


def parts(**changes: Any) -> tuple[bytes, bytes]:
    return envelope.build_parts(**(FIELDS | {"data": {}} | changes))


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_bytes_are_the_golden_ones(name: str) -> None:
    assert build(**INPUTS[name]) == GOLDEN[name].encode()


def test_every_golden_case_has_an_input() -> None:
    assert INPUTS.keys() == GOLDEN.keys()


def _without_traps(value: object) -> bool:
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\\u0000" not in text


@given(JSON.filter(_without_traps), st.none() | st.integers(0, 2**63 - 1))
def test_data_and_sequence_come_back(data: object, sequence: int | None) -> None:
    body = build(data=data, sequence=sequence)
    assert json.loads(body) == {
        "id": FIELDS["id"],
        "type": "order.paid",
        "api_version": "2026-10-01",
        "occurred_at": "2026-10-09T12:00:00.123Z",
        "tenant_id": "acme",
        "identity_id": None,
        "sequence": sequence,
        "data": data,
    }
    assert body == json.dumps(json.loads(body), separators=(",", ":"), ensure_ascii=False).encode()


@given(JSON.filter(_without_traps), st.integers(0, 2**63 - 1))
def test_the_parts_with_a_number_between_are_the_whole(data: object, sequence: int) -> None:
    before, after = parts(data=data)
    assert before + b"%d" % sequence + after == build(data=data, sequence=sequence)
    assert before + b"null" + after == build(data=data, sequence=None)


def test_text_that_looks_like_the_hole_is_not_taken_for_it() -> None:
    bait = '"sequence":null'
    body = build(tenant_id=bait, identity_id=f"x,{bait}", data={"sequence": None, "a": bait}, sequence=9)
    read = json.loads(body)
    assert (read["tenant_id"], read["sequence"], read["data"]) == (bait, 9, {"sequence": None, "a": bait})


def test_a_fault_in_another_field_names_that_field() -> None:
    for field in ("id", "type", "api_version", "tenant_id", "identity_id"):
        with pytest.raises(envelope.PayloadError) as raised:
            build(**{field: "a\0b"})
        assert raised.value.path == f"/{field}"


def test_a_naive_time_names_its_field() -> None:
    with pytest.raises(envelope.PayloadError) as raised:
        build(occurred_at=datetime(2026, 10, 9))
    assert raised.value.path == "/occurred_at"


def test_a_hundred_levels_of_data_fit_and_one_more_does_not() -> None:
    data: Any = []
    for _ in range(envelope.MAX_DEPTH - 1):
        data = [data]
    assert json.loads(build(data=data))["data"] == data
    with pytest.raises(envelope.PayloadError, match="100 levels"):
        build(data=[data])


def test_the_limit_counts_the_whole_body_with_the_longest_sequence() -> None:
    before, after = parts(data="x" * 100)
    limit = len(before) + envelope.SEQUENCE_DIGITS + len(after)
    assert parts(data="x" * 100, max_bytes=limit) == (before, after)
    assert len(build(data="x" * 100, max_bytes=limit, sequence=2**63 - 1)) <= limit
    for make in (build, parts):
        with pytest.raises(envelope.PayloadError) as raised:
            make(data="x" * 101, max_bytes=limit)
        assert (raised.value.path, raised.value.code) == ("/data", "payload_too_large")


def test_the_limit_is_in_bytes_not_characters() -> None:
    with pytest.raises(envelope.PayloadError, match="more than the limit of 500"):
        build(data="é" * 200, max_bytes=500)


def test_the_hook_reaches_the_data() -> None:
    body = build(data={"label": {1, 2}}, default=lambda value: f"{len(value)} things")
    assert json.loads(body)["data"] == {"label": "2 things"}


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 10, 9, 12, tzinfo=UTC), "2026-10-09T12:00:00.000Z"),
        (NOON, "2026-10-09T12:00:00.123Z"),
        (datetime(2026, 10, 9, 1, 30, tzinfo=BERLIN), "2026-10-08T23:30:00.000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times_are_utc_with_milliseconds(moment: datetime, text: str) -> None:
    assert envelope.timestamp(moment) == text


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), datetime(1, 1, 1, tzinfo=BERLIN)])
def test_times_without_a_moment_are_refused(moment: datetime) -> None:
    with pytest.raises(ValueError, match=r"naive|years"):
        envelope.timestamp(moment)


@given(st.datetimes(datetime(1970, 1, 1), timezones=st.timezones()))
def test_a_time_reads_back_to_its_millisecond(moment: datetime) -> None:
    if moment.utctimetuple().tm_year > 9999:
        return
    read = datetime.fromisoformat(envelope.timestamp(moment))
    assert timedelta(0) <= moment - read < timedelta(milliseconds=1)
