"""Token buckets: never more than rate times time plus burst, never less than that for long."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhooks_app.core.rate import (
    MAX_BURST,
    MAX_PER_SECOND,
    MIN_PER_SECOND,
    Rate,
    RateError,
    available,
    parse_rate,
    wait_for_one,
)

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
TEN = Rate(per_second=10.0, burst=20.0)
RATES = st.builds(Rate, st.floats(MIN_PER_SECOND, MAX_PER_SECOND), st.floats(1, MAX_BURST))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({"per_second": 10, "burst": 20}, TEN),
        ({"per_second": 50}, Rate(50.0, 50.0)),
        ({"per_second": 0.5}, Rate(0.5, 1.0)),
        ({"per_second": MIN_PER_SECOND, "burst": 1}, Rate(MIN_PER_SECOND, 1.0)),
        ({"per_second": MAX_PER_SECOND, "burst": MAX_BURST}, Rate(MAX_PER_SECOND, MAX_BURST)),
    ],
)
def test_parse(value: object, expected: Rate | None) -> None:
    assert parse_rate(value) == expected


@pytest.mark.parametrize(
    ("value", "path", "bound"),
    [
        (10, "", "per_second"),
        ([], "", "per_second"),
        ("10/s", "", "per_second"),
        (False, "", "per_second"),
        ({}, "per_second", "required"),
        ({"burst": 5}, "per_second", "required"),
        ({"per_second": 0}, "per_second", "from 0.001 to"),
        ({"per_second": -1}, "per_second", "0.001"),
        ({"per_second": 100_001}, "per_second", "100000"),
        ({"per_second": 10**400}, "per_second", "100000"),
        ({"per_second": float("nan")}, "per_second", "0.001"),
        ({"per_second": float("inf")}, "per_second", "100000"),
        ({"per_second": True}, "per_second", "number"),
        ({"per_second": "10"}, "per_second", "number"),
        ({"per_second": None}, "per_second", "number"),
        ({"per_second": 10, "burst": 0.5}, "burst", "1"),
        ({"per_second": 10, "burst": 1_000_001}, "burst", "1000000"),
        ({"per_second": 10, "burst": None}, "burst", "number"),
        ({"per_second": 10, "bursts": 5}, "bursts", "unknown"),
        ({"per_second": 10, 5: 5}, "5", "unknown"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused_rates_name_the_field(value: Any, path: str, bound: str) -> None:
    with pytest.raises(RateError) as caught:
        parse_rate(value)
    assert caught.value.path == path
    assert bound in caught.value.message
    assert str(caught.value) == (f"{path}: {caught.value.message}" if path else caught.value.message)


@pytest.mark.parametrize(
    ("tokens", "ago", "expected"),
    [
        (None, None, 20),
        (None, 5, 20),
        (3.0, None, 3),
        (30.0, None, 20),
        (0.0, 0, 0),
        (0.0, 0.5, 5),
        (3.0, 1, 13),
        (0.0, 2, 20),
        (0.0, 10**8, 20),
        (3.0, -50, 3),  # the clock went back
        (-5.0, 1, 5),
    ],
)
def test_available(tokens: float | None, ago: float | None, expected: float) -> None:
    since = None if ago is None else NOW - timedelta(seconds=ago)
    assert available(TEN, tokens, since, NOW) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("tokens", "expected"), [(1.0, 0), (1.5, 0), (20.0, 0), (0.0, 0.1), (0.5, 0.05), (-1.0, 0.2)]
)
def test_wait_for_one(tokens: float, expected: float) -> None:
    assert wait_for_one(TEN, tokens) == pytest.approx(expected, abs=2e-6)
    assert (wait_for_one(TEN, tokens) == 0) == (expected == 0)


@given(RATES, st.floats(-100, 1, exclude_max=True))
@example(Rate(3.0, 1000.0), 0.1)  # 0.1 + 0.3 · 3 is a little less than 1
def test_who_waits_so_long_finds_one_and_hardly_more(rate: Rate, tokens: float) -> None:
    wait = wait_for_one(rate, tokens)
    assert wait > 0
    later = NOW + timedelta(seconds=wait)
    found = available(rate, tokens, NOW, later)
    assert 1.0 <= found <= 1.0 + 3e-6 * rate.per_second


@given(RATES, st.floats(0, MAX_BURST), st.floats(0, 10**7), st.floats(0, 10**7))
def test_a_bucket_never_holds_more_than_its_burst_and_grows(
    rate: Rate, tokens: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    sooner, later = (available(rate, tokens, NOW, NOW + timedelta(seconds=age)) for age in (low, high))
    assert sooner <= later <= rate.burst


@given(
    st.builds(Rate, st.floats(0.01, 1000), st.integers(1, 50).map(float)),
    st.lists(st.floats(0, 30), min_size=1, max_size=200),
)
def test_whatever_the_moments_no_more_leave_than_rate_and_burst_allow(rate: Rate, gaps: list[float]) -> None:
    tokens, since, now, taken = None, None, NOW, 0
    for gap in gaps:
        now += timedelta(seconds=gap)
        full = available(rate, tokens, since, now)
        assert full >= 0
        taken += int(full)
        tokens, since = full - int(full), now
        elapsed = (now - NOW).total_seconds()
        assert taken <= rate.burst + elapsed * rate.per_second + 1e-6 * len(gaps)


@pytest.mark.parametrize("rate", [Rate(3.0, 1.0), Rate(7.0, 10.0), Rate(0.3, 2.0)])
def test_hours_of_waiting_for_each_token_do_not_drift(rate: Rate) -> None:
    """A sender that asks, waits as it is told and takes one token, for six hours."""
    tokens, now, taken = available(rate, None, None, NOW), NOW, 0
    end = NOW + timedelta(hours=6)
    while now < end:
        if tokens >= 1:
            taken, tokens = taken + 1, tokens - 1
        since, now = now, now + timedelta(seconds=wait_for_one(rate, tokens))
        tokens = available(rate, tokens, since, now)
    allowed = rate.burst + 6 * 3600 * rate.per_second
    assert allowed * 0.9999 - 1 <= taken <= allowed + 1
