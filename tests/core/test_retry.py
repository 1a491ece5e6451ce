"""The schedule as printed, its jitter, and Retry-After."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.policies import QUICK, STANDARD, STRICT, with_overrides
from webhooks_app.core.retry import jitter_of, next_wait, parse_retry_after

DAY = 86_400
NOW = datetime(2026, 10, 22, 9, 59, 41, tzinfo=UTC)
JITTERS = st.floats(0, 1, exclude_max=True)
VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "signature_vectors.json").read_text())[
    "vectors"
]


def schedule(jitter: float) -> list[float | None]:
    return [next_wait(STANDARD, step, jitter) for step in range(13)]


def test_the_printed_schedule_is_the_real_one() -> None:  # B110
    # fmt: off
    assert schedule(0.5) == [
        30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200, 43200, 43200, 68400, None,
    ]
    assert schedule(0.0) == [
        27, 108, 540, 1620, 3240, 6480, 12960, 25920, 38880, 38880, 38880, 61560, None,
    ]
    # fmt: on
    assert sum(STANDARD.waits) == 254_550


def test_offsets_of_the_thirteen_attempts() -> None:
    offsets = [0.0]
    for wait in schedule(0.5):
        if wait is not None:
            offsets.append(offsets[-1] + wait)
    assert len(offsets) == 13
    hours = [round(offset / 3600, 3) for offset in offsets]
    # fmt: off
    assert hours == [
        0.0, 0.008, 0.042, 0.208, 0.708, 1.708, 3.708, 7.708, 15.708, 27.708, 39.708, 51.708, 70.708,
    ]
    # fmt: on


@given(st.integers(0, 11), JITTERS)
def test_jitter_keeps_within_ten_percent_in_whole_seconds(step: int, jitter: float) -> None:
    wait = next_wait(STANDARD, step, jitter)
    nominal = STANDARD.waits[step]
    assert wait is not None
    assert nominal * 0.9 <= wait <= nominal * 1.1 + 1e-6
    assert wait == int(wait)
    assert wait <= DAY


@given(st.integers(0, 11), JITTERS, JITTERS)
def test_more_jitter_never_waits_less(step: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert (next_wait(STANDARD, step, low) or 0) <= (next_wait(STANDARD, step, high) or 0)


@given(st.lists(st.floats(1, 8 * DAY), max_size=1), st.floats(0, 0.5), JITTERS)
def test_any_override_stays_from_one_second_to_a_day_or_its_own_wait(
    waits: list[float], spread: float, jitter: float
) -> None:
    policy = with_overrides(STANDARD, {"waits": waits, "jitter": spread})
    wait = next_wait(policy, 0, jitter)
    if not waits:
        assert wait is None
        return
    assert wait is not None
    assert 1 <= wait <= max(DAY, waits[0])
    assert abs(wait - waits[0]) <= waits[0] * spread + 0.5 + 1e-6


@pytest.mark.parametrize(
    ("waits", "spread", "jitter", "expected"),
    [
        ((20,), 0.1, 0.123, 20 * 0.9246),  # under 30 s: not rounded
        ((1,), 0.5, 0.0, 1.0),  # the floor
        ((1.5,), 0.5, 0.0, 1.0),
        ((86_400,), 0.2, 0.999, 86_400.0),  # the ceiling
        ((0.25,), 0.0, 0.5, 0.25),  # an operator's own shorter wait is kept
        ((100_000,), 0.0, 0.5, 100_000.0),  # and a longer one
    ],
)
def test_edges(waits: tuple[float, ...], spread: float, jitter: float, expected: float) -> None:
    policy = replace(STANDARD, waits=waits, jitter=spread)
    assert next_wait(policy, 0, jitter) == pytest.approx(expected)


def test_a_policy_may_have_no_jitter() -> None:
    assert next_wait(replace(STANDARD, jitter_kind="none"), 0, 0.99) == 30


@given(st.text(), st.integers(0, 40), JITTERS)
def test_jitter_is_the_callers_or_the_deliverys_or_none(delivery: str, step: int, chance: float) -> None:
    assert jitter_of(STANDARD, delivery=delivery, step=step, chance=chance) == chance
    assert jitter_of(QUICK, delivery=delivery, step=step, chance=chance) == 0.5
    fixed = jitter_of(STRICT, delivery=delivery, step=step, chance=chance)
    assert fixed == jitter_of(STRICT, delivery=delivery, step=step, chance=0.0)
    assert 0 <= fixed < 1


@pytest.mark.parametrize(
    ("delivery", "step", "expected"),
    [
        ("evt_1", 0, 0.407743904630),
        ("evt_1", 1, 0.961614459108),
        ("evt_1", 11, 0.695504172979),
        ("evt_11", 1, 0.657302666853),
    ],
)
def test_a_deliverys_jitter_is_the_same_for_ever(delivery: str, step: int, expected: float) -> None:
    assert jitter_of(STRICT, delivery=delivery, step=step, chance=0.5) == pytest.approx(expected, abs=1e-12)


def test_the_jitter_of_deliveries_is_spread_evenly() -> None:
    values = [jitter_of(STRICT, delivery=f"evt_{number}", step=3, chance=0) for number in range(10_000)]
    tenths = [sum(low / 10 <= value < (low + 1) / 10 for value in values) for low in range(10)]
    assert all(900 <= count <= 1100 for count in tenths)


@pytest.mark.parametrize("step", [12, 13, 10**9])
def test_exhausted(step: int) -> None:
    assert next_wait(STANDARD, step, 0.5) is None


def test_a_negative_step_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="negative"):
        next_wait(STANDARD, -1, 0.5)


@pytest.mark.parametrize(
    "vector", [each for each in VECTORS if each["kind"] == "retry-after"], ids=lambda each: each["id"]
)
def test_vectors(vector: dict[str, Any]) -> None:
    now = datetime.fromtimestamp(vector["now"], UTC)
    assert parse_retry_after(vector["value"], now) == vector["expect_seconds"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        ("120", 120),
        (" 120\t", 120),
        ("9999999999", 9_999_999_999),
        ("9" * 5000, None),
        ("+5", None),
        ("1e3", None),
        ("1_000", None),
        ("1,5", None),
        ("120, 60", None),
        ("\u0661\u0662", None),
        ("\u00b2", None),
        ("120\n", None),
        ("\u00ff\u00fe", None),  # B075: bytes FF FE, as read from a header
        ("Thursday, 22-Oct-26 10:01:41 GMT", 120),
        ("Fri Nov  6 08:49:37 2026", 1_291_796),
        ("Fri Nov 06 08:49:37 2026", 1_291_796),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799 - 1_792_663_181),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Sat, 01 Jan 0000 00:00:00 GMT", None),
        ("Thu, 22 Oct 2026 10:00:60 GMT", 79),
        ("Thu, 22 Oct 2026 10:01:61 GMT", None),
        ("Thu, 22 Oct 2026 24:00:00 GMT", None),
        ("Sun, 29 Feb 2026 10:01:41 GMT", None),
        ("Thu, 22 Oct 2026 10:01:41 +0000", None),
        ("Thu, 22 Oct 2026 10:01:41 UTC", None),
        ("Thu, 22 Oct 2026 10:01:41", None),
        ("thu, 22 oct 2026 10:01:41 gmt", None),
        ("Thu, 22 Oct 2026 09:59:41 GMT", 0),
        ("Thu, 22 Oct 2026 09:59:40 GMT", 0),
    ],
)
def test_retry_after(value: str | None, expected: float | None) -> None:
    assert parse_retry_after(value, NOW) == expected


@pytest.mark.parametrize(
    ("now", "two_digits", "year"),
    [
        (datetime(2026, 10, 22, 10, tzinfo=UTC), "76", 2076),
        (datetime(2026, 10, 22, 9, tzinfo=UTC), "76", 1976),  # an hour over 50 years ahead
        (datetime(2026, 10, 22, 10, tzinfo=UTC), "77", 1977),
        (datetime(2099, 12, 31, tzinfo=UTC), "05", 2105),
        (datetime(2000, 1, 1, tzinfo=UTC), "99", 1999),
        (datetime(2024, 2, 29, 12, tzinfo=UTC), "74", 2074 - 100),
    ],
)
def test_two_digit_years(now: datetime, two_digits: str, year: int) -> None:
    moment = datetime(year, 10, 22, 10, tzinfo=UTC)
    expected = max(0.0, (moment - now).total_seconds())
    assert parse_retry_after(f"Thursday, 22-Oct-{two_digits} 10:00:00 GMT", now) == expected


@given(st.datetimes(datetime(2027, 1, 1), datetime(2070, 1, 1)), st.integers(-14, 14))
def test_the_three_dates_mean_the_same_whatever_our_zone(moment: datetime, offset: int) -> None:
    moment = moment.replace(microsecond=0)
    now = NOW.astimezone(timezone(timedelta(hours=offset)))
    forms = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y")
    expected = (moment.replace(tzinfo=UTC) - NOW).total_seconds()
    assert {parse_retry_after(moment.strftime(form), now) for form in forms} == {expected}


_NOISE = st.text() | st.binary().map(lambda raw: raw.decode("latin-1"))
_NEARLY = st.from_regex(r"\A[A-Z][a-z]{2,8},? [ 0-9]{1,2}[ -][A-Z][a-z]{2}[ -][0-9]{2,5} [0-9:]{8} ?(GMT)?\Z")


@given(_NOISE | _NEARLY | st.from_regex(r"\A\s?[+-]?[0-9]{1,400}\Z"))
def test_no_header_raises(value: str) -> None:
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds < float("inf")
