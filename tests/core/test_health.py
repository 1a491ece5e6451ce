"""Window, slowness, latency and auto-disable."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.health import (
    FIRST_WINDOW,
    SLOW_WINDOW,
    Health,
    HealthFacts,
    Pace,
    begins_redirecting,
    next_latency,
    next_window,
    pace_of,
    progress,
    should_disable,
    warnings_due,
    worst,
)
from webhooks_app.core.policies import STANDARD, STRICT, AutoDisable

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(hours=24)


@pytest.mark.parametrize(
    ("window", "pace", "cap", "expected"),
    [
        (4, "quick", 100, 8),
        (64, "quick", 100, 100),
        (100, "quick", 100, 100),
        (100, "silent", 100, 50),
        (3, "silent", 100, 1),
        (1, "silent", 100, 1),
        (1, "quick", 1, 1),
        (4, "quick", 2, 2),
        (64, "silent", 2, 2),
        (100, "busy", 100, 50),
        (1, "busy", 100, 1),
        (0, "quick", 10, 1),
        (100, "slow", 100, 50),
        (9, "slow", 100, 7),
        (7, "slow", 100, 7),
        (4, "slow", 100, 7),
        (1, "slow", 100, 2),
        (7, "slow", 3, 3),
    ],
)
def test_next_window(window: int, pace: Pace, cap: int, expected: int) -> None:
    assert next_window(window, pace, cap) == expected


@given(st.integers(0, 10**6), st.sampled_from(("quick", "slow", "busy", "silent")), st.integers(1, 10**4))
def test_the_window_stays_from_one_to_the_cap(window: int, pace: Pace, cap: int) -> None:
    assert 1 <= next_window(window, pace, cap) <= cap


@given(st.integers(1, 1000))
def test_a_slow_receiver_that_answers_settles_at_seven(window: int) -> None:
    for _ in range(12):
        window = next_window(window, "slow", 1000)
    assert window == SLOW_WINDOW == 7


def test_the_worst_pace_decides() -> None:
    assert worst(["quick", "silent", "slow"]) == "silent"
    assert worst(["quick", "busy", "slow"]) == "busy"
    assert worst(["quick", "slow"]) == "slow"
    assert worst([]) == "quick"


def test_a_fast_endpoint_reaches_the_default_cap_in_five_records() -> None:
    window = FIRST_WINDOW
    assert window == 4
    for _ in range(5):
        window = next_window(window, "quick", 100)
    assert window == 100


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (AttemptResult(duration_ms=1000), "quick"),
        (AttemptResult(duration_ms=1001), "slow"),
        (AttemptResult(error="status_5xx", http_status=500, duration_ms=20), "quick"),
        (AttemptResult(error="status_4xx", http_status=429, duration_ms=20), "busy"),
        (AttemptResult(error="status_4xx", http_status=429, duration_ms=2000), "busy"),
        (AttemptResult(error="timeout", duration_ms=300), "silent"),
        (AttemptResult(error="connect", detail="connect_timeout"), "silent"),
        (AttemptResult(error="dns", detail="dns_timeout"), "silent"),
        (AttemptResult(error="tls", detail="timeout"), "silent"),
        (AttemptResult(error="connect", detail="refused"), "quick"),
        (AttemptResult(error="tls", detail="expired"), "quick"),
        (AttemptResult(error="invalid_response", detail="timeout"), "quick"),
    ],
)
def test_pace(result: AttemptResult, expected: Pace) -> None:
    assert pace_of(result) == expected


def failing(consecutive: int, start: datetime | None, last: datetime | None = None) -> HealthFacts:
    return HealthFacts(consecutive, start, last or start, start)


@pytest.mark.parametrize(
    ("consecutive", "first", "expected"),
    [
        (100, NOW - DAY, True),
        (1000, NOW - 9 * DAY, True),
        (99, NOW - 9 * DAY, False),
        (100, NOW - DAY + timedelta(seconds=1), False),
        (10_000, NOW, False),
        (100, None, False),
        (0, None, False),
    ],
)
def test_standard_disables_after_100_failures_over_a_day(
    consecutive: int, first: datetime | None, expected: bool
) -> None:
    assert should_disable(STANDARD, failing(consecutive, first), NOW) is expected


def test_a_policy_without_the_rule_never_disables_or_warns() -> None:
    patient = replace(STANDARD, auto_disable=None)
    assert not should_disable(patient, failing(10**6, NOW - 365 * DAY), NOW)
    assert warnings_due(patient, failing(10**6, NOW - 365 * DAY), NOW) == 0
    assert warnings_due(STANDARD, failing(10**6, NOW - 365 * DAY), NOW) == 0  # it has a rule but no warnings


def test_facts_count_failures_in_a_row() -> None:
    facts = HealthFacts()
    for hour in range(3):
        facts = facts.after("failure", NOW + hour * HOUR, None)
    assert facts == HealthFacts(3, NOW, NOW + 2 * HOUR, NOW)
    assert facts.after("none", NOW, STRICT.auto_disable) is facts
    assert facts.after("success", NOW, STRICT.auto_disable) == HealthFacts()


def test_outcomes_in_another_order_do_not_turn_time_back() -> None:
    facts = HealthFacts().after("failure", NOW + HOUR, None).after("failure", NOW, None)
    assert facts.last_failure_at == NOW + HOUR


@given(st.lists(st.sampled_from(["success", "failure", "none"])))
def test_facts_are_the_failures_after_the_last_success(outcomes: list[Health]) -> None:
    facts = HealthFacts()
    for place, outcome in enumerate(outcomes):
        facts = facts.after(outcome, NOW + timedelta(seconds=place), None)
    start = max((place for place, outcome in enumerate(outcomes) if outcome == "success"), default=-1)
    failures = [place for place in range(start + 1, len(outcomes)) if outcomes[place] == "failure"]
    assert facts.consecutive == len(failures)
    first, last = (NOW + timedelta(seconds=failures[end]) if failures else None for end in (0, -1))
    assert facts == HealthFacts(len(failures), first, last, first)


def test_failing_once_more_after_enabling_does_not_disable_again() -> None:  # B025
    facts = HealthFacts().after("failure", NOW, STANDARD.auto_disable)
    assert not should_disable(STANDARD, facts, NOW + 9 * DAY)


def after_failures(rule: AutoDisable | None, *hours: float, before: HealthFacts | None = None) -> HealthFacts:
    facts = before or HealthFacts()
    for hour in hours:
        facts = facts.after("failure", NOW + hour * HOUR, rule)
    return facts


@pytest.mark.parametrize(
    ("hours", "start"),
    [
        ((0,), 0),
        ((0, 24), 0),  # not later than 24 hours after
        ((0, 24.01), 24.01),  # a new burst
        ((0, 11.99, 36), 36),  # 11.99 hours do not start the clock: the next burst begins
        ((0, 12, 36.01, 100, 1000), 0),  # 12 hours do, and then nothing but a success stops it
        ((0, 30, 60, 90, 120), 120),  # now and then: never
        ((0, 30, 31, 42, 100), 30),
        ((0, 11, 22), 0),
    ],
)
def test_where_the_clock_of_strict_starts(hours: tuple[float, ...], start: float) -> None:
    facts = after_failures(STRICT.auto_disable, *hours)
    assert facts.failing_from == NOW + start * HOUR
    assert (facts.consecutive, facts.first_failure_at) == (len(hours), NOW)


def test_without_the_start_rule_the_clock_counts_from_the_first_failure() -> None:
    assert after_failures(STANDARD.auto_disable, 0, 100, 1000).failing_from == NOW
    assert after_failures(None, 0, 100, 1000).failing_from == NOW


def test_rows_from_before_the_rule_count_from_their_first_failure() -> None:
    old = HealthFacts(consecutive=5, first_failure_at=NOW)
    assert after_failures(STRICT.auto_disable, 1, before=old).failing_from == NOW
    assert should_disable(STANDARD, replace(old, consecutive=100), NOW + DAY)
    assert not should_disable(STRICT, old, NOW + 9 * DAY)  # when the last one was is not known


@pytest.mark.parametrize(
    ("hours", "at", "expected"),
    [
        ((0,), 1000, 0),
        ((0, 11.99), 1000, 0),
        ((0, 12), 12, 0.1),
        ((0, 12), 60, 0.5),
        ((0, 12), 72, 0.6),
        ((0, 24), 120, 1),
        ((0, 30, 42), 42, 0.1),
        ((0, 30, 42), 150, 1),
        ((0, 12), -5, 0),
    ],
)
def test_progress_of_strict(hours: tuple[float, ...], at: float, expected: float) -> None:
    rule = STRICT.auto_disable
    assert rule is not None
    facts, now = after_failures(rule, *hours), NOW + at * HOUR
    assert progress(rule, facts, now) == pytest.approx(expected)
    assert should_disable(STRICT, facts, now) is (expected >= 1)
    assert warnings_due(STRICT, facts, now) == (expected >= 0.6)


def test_the_warning_comes_at_72_hours_and_the_end_at_120() -> None:
    facts = after_failures(STRICT.auto_disable, 0, 6, 13)
    second = timedelta(seconds=1)
    assert warnings_due(STRICT, facts, NOW + 72 * HOUR - second) == 0
    assert warnings_due(STRICT, facts, NOW + 72 * HOUR) == 1
    assert not should_disable(STRICT, facts, NOW + 120 * HOUR - second)
    assert should_disable(STRICT, facts, NOW + 120 * HOUR)
    assert warnings_due(STRICT, facts.after("success", NOW, None), NOW + 120 * HOUR) == 0


def test_progress_is_the_lesser_of_the_two_shares() -> None:
    rule = AutoDisable(failures=10, span=100, warnings=(0.25, 0.5))
    ago = NOW - timedelta(seconds=40)
    assert progress(rule, failing(3, ago), NOW) == pytest.approx(0.3)
    assert progress(rule, failing(9, ago), NOW) == pytest.approx(0.4)
    policy = replace(STANDARD, auto_disable=rule)
    assert [
        warnings_due(policy, failing(9, NOW - timedelta(seconds=age)), NOW) for age in (24, 25, 50, 500)
    ] == [0, 1, 2, 2]


def test_a_rule_may_look_at_the_count_alone() -> None:
    policy = replace(STANDARD, auto_disable=AutoDisable(failures=3, span=0))
    assert [should_disable(policy, failing(count, NOW), NOW) for count in (0, 2, 3)] == [False, False, True]


RULES = st.builds(
    AutoDisable,
    failures=st.integers(1, 10),
    span=st.integers(0, 100).map(float),
    start_within=st.none() | st.integers(1, 30).map(float),
    start_span=st.integers(0, 50).map(float),
)


@given(RULES, st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40))
def test_who_is_disabled_has_failed_often_and_long_enough_without_a_success(
    rule: AutoDisable, steps: list[tuple[int, bool]]
) -> None:
    policy, facts, now = replace(STANDARD, auto_disable=rule), HealthFacts(), NOW
    row: list[datetime] = []
    for gap, ok in steps:
        now += timedelta(seconds=gap)
        row = [] if ok else [*row, now]
        facts = facts.after("success" if ok else "failure", now, rule)
        assert facts.failing_from is None if ok else facts.failing_from in row
        if should_disable(policy, facts, now):
            start = facts.failing_from
            assert start is not None
            assert len(row) >= rule.failures
            assert (now - start).total_seconds() >= rule.span
            assert (row[-1] - start).total_seconds() >= rule.start_span


@pytest.mark.parametrize(
    ("old", "sample", "expected"),
    [(None, 120, 120), (100, 200, 120), (200, 100, 180), (100, 100, 100), (100, 101, 100), (0, 0, 0)],
)
def test_latency_is_smoothed(old: int | None, sample: int, expected: int) -> None:
    assert next_latency(old, sample) == expected


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_latency_nears_what_stays(old: int, sample: int) -> None:
    for _ in range(80):
        old = next_latency(old, sample)
    assert abs(old - sample) <= 3


@pytest.mark.parametrize(
    ("warning", "last_error", "ago", "expected"),
    [
        ("", "", None, True),
        ("", "timeout", HOUR, True),
        ("", "redirect", HOUR, False),
        ("", "redirect", DAY - timedelta(microseconds=1), False),
        ("", "redirect", DAY, True),
        # Recorded in another order than they happened.
        ("", "redirect", -HOUR, False),
        ("redirect", "redirect", 3 * DAY, False),
        ("redirect", "timeout", 3 * DAY, False),
    ],
)
def test_where_an_episode_of_redirects_begins(
    warning: str, last_error: str, ago: timedelta | None, expected: bool
) -> None:
    last = None if ago is None else NOW - ago
    begins = begins_redirecting(warning, last_error=last_error, last_failure_at=last, at=NOW)
    assert begins is expected


def test_a_receiver_that_changes_its_mind_every_hour_is_one_episode() -> None:
    begun, last = 0, None
    for hour in range(0, 24 * 7, 2):
        at = NOW + hour * HOUR
        begun += begins_redirecting("", last_error="redirect" if last else "", last_failure_at=last, at=at)
        last = at
    assert begun == 1
