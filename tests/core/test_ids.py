"""Ids: form, strict reading, and the derived ones that must never collide nor change."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from webhooks_app.core import ids

VALUES = st.integers(0, 2**128 - 1)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))
NOON = datetime(2026, 10, 9, 12, 0, 0, 123999, tzinfo=UTC)


@given(VALUES, st.sampled_from(sorted(ids.PREFIXES.values())))
def test_an_id_is_a_prefixed_ulid_and_reads_back(value: int, prefix: str) -> None:
    text = ids.format_id(prefix, value)
    assert text == f"{prefix}_{ULID.from_int(value)}"
    assert ids.parse_id(prefix, text) == value


@given(VALUES, VALUES)
def test_ids_sort_like_their_values(one: int, two: int) -> None:
    assert (one < two) == (ids.format_id("evt", one) < ids.format_id("evt", two))


@pytest.mark.parametrize(("prefix", "value"), [("evt", -1), ("evt", 2**128), ("evt_", 1), ("nope", 1)])
def test_no_id_for_a_foreign_prefix_or_a_value_out_of_range(prefix: str, value: int) -> None:
    with pytest.raises(ValueError, match="no id"):
        ids.format_id(prefix, value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "evt_",
        "evt",
        "dlv_01JZ8QK3T7V9X2B4D6F8H0J2M4",
        "01JZ8QK3T7V9X2B4D6F8H0J2M4",
        "evt_01JZ8QK3T7V9X2B4D6F8H0J2M",
        "evt_01JZ8QK3T7V9X2B4D6F8H0J2M44",
        "evt_01jz8qk3t7v9x2b4d6f8h0j2m4",
        "evt_O1JZ8QK3T7V9X2B4D6F8H0J2M4",
        "evt_U1JZ8QK3T7V9X2B4D6F8H0J2M4",
        "evt_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "evt_01JZ8QK3T7V9X2B4D6F8H0J2M4\n",
        " evt_01JZ8QK3T7V9X2B4D6F8H0J2M4",
        "evt_01JZ8QK3T7V9X2B4D6F8H0J2_4",
        "evt_٠1JZ8QK3T7V9X2B4D6F8H0J2M4",
    ],
)
def test_anything_else_is_no_id(text: str) -> None:
    assert ids.parse_id("evt", text) is None


@given(st.text(max_size=40))
def test_reading_never_raises(text: str) -> None:
    assert ids.parse_id("evt", text) is None
    assert ids.parse_delivery_id(f"dlv_{text}") is None


@pytest.mark.parametrize("text", ["a", "evt_01JZ8QK3T7V9X2B4D6F8H0J2M4", "A-Z_9", "x" * 64])
def test_event_ids_that_are_taken(text: str) -> None:
    ids.check_event_id(text)


@pytest.mark.parametrize("text", ["", "x" * 65, "a.b", "a b", "a\n", "é", "a/b", "a:b", None, 7])
def test_event_ids_that_are_refused(text: object) -> None:
    with pytest.raises(ids.IdError):
        ids.check_event_id(text)  # type: ignore[arg-type]


def test_a_tenants_event_id_stays_the_same_for_ever() -> None:
    digest = hashlib.sha256(b"6:acme_1,5:order,").digest()
    expected = ids.format_id("evt", int.from_bytes(digest[:16], "big"))
    assert ids.tenant_event_id("acme_1", "order") == expected == "evt_6ZT71Q9Y9YSQBDNJN5CXX96DAG"


@given(st.text(), st.text(), st.from_regex(ids.EVENT_ID, fullmatch=True))
def test_tenants_never_share_an_event_id(one: str, two: str, given_id: str) -> None:
    assert (one == two) == (ids.tenant_event_id(one, given_id) == ids.tenant_event_id(two, given_id))
    assert ids.tenant_event_id(None, given_id) != ids.tenant_event_id(one, given_id)


def test_tenant_and_id_are_joined_without_ambiguity() -> None:
    assert ids.tenant_event_id("a", "b_c") != ids.tenant_event_id("a_b", "c")
    assert ids.tenant_event_id("1:a,1:b", "c") != ids.tenant_event_id("1:a", "b_c")
    with pytest.raises(ids.IdError):
        ids.tenant_event_id("a", "b.c")


def test_a_system_events_id_is_a_ulid_of_its_time_and_seed() -> None:
    text = ids.system_event_id(at=NOON, seed="webhook.disabled:whk_1:evt_2:3")
    read = ULID.from_str(text.removeprefix("evt_"))
    assert read.milliseconds == 1791547200123
    assert read.bytes[6:] == hashlib.sha256(b"webhook.disabled:whk_1:evt_2:3").digest()[:10]
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-7)))
    assert ids.system_event_id(at=elsewhere, seed="webhook.disabled:whk_1:evt_2:3") == text


@pytest.mark.parametrize("at", [datetime(2026, 1, 1), datetime(1969, 12, 31, tzinfo=UTC)])
def test_a_time_that_fits_no_id_is_refused(at: datetime) -> None:
    with pytest.raises(ValueError, match=r"time|moment"):
        ids.system_event_id(at=at, seed="x")
    with pytest.raises(ValueError, match=r"time|moment"):
        ids.delivery_id(1, at)


@given(st.integers(0, 2**63 - 1), MOMENTS)
def test_a_delivery_id_gives_its_key_and_time_back(pk: int, created_at: datetime) -> None:
    text = ids.delivery_id(pk, created_at)
    assert ids.parse_delivery_id(text) == pk
    value = ids.parse_id("dlv", text)
    assert value is not None
    millisecond = created_at.replace(microsecond=created_at.microsecond // 1000 * 1000)
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value >> 80) == millisecond


@pytest.mark.parametrize("pk", [-1, 2**63, 2**80])
def test_a_key_that_is_no_bigint_has_no_id(pk: int) -> None:
    with pytest.raises(ValueError, match="bigint"):
        ids.delivery_id(pk, NOON)


@pytest.mark.parametrize("pk", [2**63, 2**80 - 1])
def test_a_key_that_is_no_bigint_never_reaches_the_database(pk: int) -> None:
    assert ids.parse_delivery_id(ids.format_id("dlv", pk)) is None


@given(VALUES, st.integers(1, 2**63 - 1))
def test_an_attempt_id_keeps_the_tokens_time_and_adds_the_key(token: int, pk: int) -> None:
    made = ids.attempt_id(uuid.UUID(int=token), pk).int
    assert made >> 80 == token >> 80
    assert (made - token) % 2**80 == pk


@given(VALUES, st.lists(st.integers(1, 2**63 - 1), unique=True, max_size=50))
def test_one_token_names_every_delivery_of_a_batch_apart(token: int, keys: list[int]) -> None:
    assert len({ids.attempt_id(uuid.UUID(int=token), pk) for pk in keys}) == len(keys)
