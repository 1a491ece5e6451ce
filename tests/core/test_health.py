"""Window, slowness and auto-disable."""

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
    next_window,
    pace_of,
    should_disable,
    worst,
)
from webhooks_app.core.policies import STANDARD

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
DAY = timedelta(hours=24)


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


@given(st.integers(0, 10**6), st.sampled_from(("quick", "slow", "silent")), st.integers(1, 10**4))
def test_the_window_stays_from_one_to_the_cap(window: int, pace: Pace, cap: int) -> None:
    assert 1 <= next_window(window, pace, cap) <= cap


@given(st.integers(1, 1000))
def test_a_slow_receiver_that_answers_settles_at_seven(window: int) -> None:
    for _ in range(12):
        window = next_window(window, "slow", 1000)
    assert window == SLOW_WINDOW == 7


def test_the_worst_pace_decides() -> None:
    assert worst(["quick", "silent", "slow"]) == "silent"
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
    assert should_disable(STANDARD, consecutive, first, NOW) is expected


def test_a_policy_without_the_rule_never_disables() -> None:
    patient = replace(STANDARD, auto_disable=None)
    assert not should_disable(patient, 10**6, NOW - 365 * DAY, NOW)


def test_facts_count_failures_in_a_row() -> None:
    facts = HealthFacts()
    for hour in range(3):
        facts = facts.after("failure", NOW + timedelta(hours=hour))
    assert facts == HealthFacts(consecutive=3, first_failure_at=NOW)
    assert facts.after("none", NOW) is facts
    assert facts.after("success", NOW) == HealthFacts()


@given(st.lists(st.sampled_from(["success", "failure", "none"])))
def test_facts_are_the_failures_after_the_last_success(outcomes: list[Health]) -> None:
    facts = HealthFacts()
    for place, outcome in enumerate(outcomes):
        facts = facts.after(outcome, NOW + timedelta(seconds=place), None)
    start = max((place for place, outcome in enumerate(outcomes) if outcome == "success"), default=-1)
    failures = [place for place in range(start + 1, len(outcomes)) if outcomes[place] == "failure"]
    assert facts.consecutive == len(failures)
    first = NOW + timedelta(seconds=failures[0]) if failures else None
    assert facts.first_failure_at == first


def test_failing_once_more_after_enabling_does_not_disable_again() -> None:  # B025
    facts = HealthFacts().after("failure", NOW)
    assert not should_disable(STANDARD, facts.consecutive, facts.first_failure_at, NOW + 9 * DAY)
