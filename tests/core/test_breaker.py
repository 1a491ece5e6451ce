"""The breaker: both kinds, every move, and that no history makes it let through more than it may."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    BreakerFacts,
    admits,
    after,
    begin_probe,
    due_again,
)
from webhooks_app.core.health import HealthFacts
from webhooks_app.core.policies import EXPONENTIAL, STRICT, Breaker

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
assert STRICT.breaker is not None
assert EXPONENTIAL.breaker is not None
BY_TIME: Breaker = STRICT.breaker
BY_PROBES: Breaker = EXPONENTIAL.breaker
KINDS = pytest.mark.parametrize("breaker", [BY_TIME, BY_PROBES], ids=["by-time", "by-probes"])


def seconds(amount: float) -> datetime:
    return NOW + timedelta(seconds=amount)


def told(breaker: Breaker | None, facts: BreakerFacts, **outcome: Any) -> BreakerFacts:
    given_ = {"health": "failure", "probe": True, "consecutive": 1, "error": "timeout", "at": NOW} | outcome
    return after(breaker, facts, **given_)


def opened(probe_at: float = 30, **values: Any) -> BreakerFacts:
    return BreakerFacts(OPEN, NOW, "status_5xx", probe_at=seconds(probe_at), **values)


@KINDS
def test_closed_lets_everything_through(breaker: Breaker) -> None:
    assert admits(breaker, BreakerFacts(), NOW, probing=False) == "all"
    assert admits(breaker, BreakerFacts(), NOW, probing=True) == "all"


@KINDS
def test_so_many_failures_in_a_row_open_it(breaker: Breaker) -> None:
    almost = told(breaker, BreakerFacts(), consecutive=breaker.failures - 1, probe=False)
    assert almost == BreakerFacts()
    assert told(breaker, BreakerFacts(), consecutive=breaker.failures, probe=False) == BreakerFacts(
        OPEN, NOW, "timeout", 0, seconds(breaker.open_seconds)
    )
    assert told(breaker, BreakerFacts(), consecutive=breaker.failures + 5).state == OPEN


@KINDS
def test_a_success_does_not_open_a_closed_one(breaker: Breaker) -> None:
    assert told(breaker, BreakerFacts(), health="success", consecutive=10**6) == BreakerFacts()


def test_presets_open_after_ten_and_after_thirty() -> None:
    assert (BY_TIME.failures, BY_PROBES.failures) == (10, 30)


@pytest.mark.parametrize(
    ("after_seconds", "probing", "expected"),
    [(29.999, False, "none"), (30, False, "probe"), (1000, False, "probe"), (30, True, "none")],
)
@KINDS
def test_open_lets_a_probe_through_when_it_is_time(
    breaker: Breaker, after_seconds: float, probing: bool, expected: str
) -> None:
    assert admits(breaker, opened(), seconds(after_seconds), probing=probing) == expected


@KINDS
def test_an_open_one_without_a_time_probes_at_once(breaker: Breaker) -> None:
    assert admits(breaker, replace(opened(), probe_at=None), NOW, probing=False) == "probe"


@KINDS
@pytest.mark.parametrize("health", ["success", "failure"])
def test_what_left_before_it_opened_says_nothing(breaker: Breaker, health: str) -> None:
    facts = opened(successes=1)
    assert told(breaker, facts, health=health, probe=False, consecutive=99) is facts


@KINDS
@pytest.mark.parametrize("facts", [BreakerFacts(), opened(), BreakerFacts(HALF_OPEN, NOW)])
def test_faults_of_ours_move_nothing(breaker: Breaker, facts: BreakerFacts) -> None:
    assert told(breaker, facts, health="none", consecutive=99) is facts


def test_two_good_probes_a_minute_apart_make_it_half_open_and_one_success_closes_it() -> None:
    facts = begin_probe(BY_PROBES, opened(60), seconds(60))
    assert facts == opened(120)
    facts = told(BY_PROBES, facts, health="success", at=seconds(61))
    assert facts == opened(121, successes=1)
    assert admits(BY_PROBES, facts, seconds(120.9), probing=False) == "none"
    facts = begin_probe(BY_PROBES, facts, seconds(121))
    facts = told(BY_PROBES, facts, health="success", at=seconds(122))
    assert facts == BreakerFacts(HALF_OPEN, seconds(122), "status_5xx")
    assert admits(BY_PROBES, facts, seconds(122), probing=True) == "all"
    facts = told(BY_PROBES, facts, health="success", probe=False, at=seconds(123))
    assert facts == BreakerFacts(CLOSED, seconds(123))


def test_a_bad_probe_starts_the_row_anew() -> None:
    facts = told(BY_PROBES, opened(60, successes=1), at=seconds(61))
    assert facts == opened(121, successes=0)
    assert facts.error == "status_5xx"  # why it opened, not what the probe met


def test_one_live_failure_opens_a_half_open_one_again() -> None:
    facts = BreakerFacts(HALF_OPEN, NOW, "status_5xx")
    again = told(BY_PROBES, facts, probe=False, error="dns", at=seconds(5))
    assert again == BreakerFacts(OPEN, seconds(5), "dns", 0, seconds(65))


def test_time_alone_makes_it_half_open_and_a_probe_decides() -> None:
    facts = begin_probe(BY_TIME, opened(), seconds(30))
    assert facts == BreakerFacts(HALF_OPEN, NOW, "status_5xx", probe_at=seconds(60))
    assert admits(BY_TIME, facts, seconds(60), probing=True) == "none"
    assert admits(BY_TIME, facts, seconds(59), probing=False) == "none"  # it said nothing of the receiver
    assert admits(BY_TIME, facts, seconds(60), probing=False) == "probe"  # the round lapsed
    assert told(BY_TIME, facts, health="success", at=seconds(31)) == BreakerFacts(CLOSED, seconds(31))
    assert told(BY_TIME, facts, at=seconds(31)) == BreakerFacts(OPEN, NOW, "timeout", 0, seconds(61))
    assert told(BY_TIME, facts, probe=False) is facts
    assert told(BY_TIME, facts, probe=False, health="success") is facts


def test_a_round_that_has_failed_is_not_saved_by_a_late_success() -> None:
    failed = told(BY_TIME, BreakerFacts(HALF_OPEN, NOW), at=NOW)
    assert told(BY_TIME, failed, health="success", at=seconds(1)) is failed
    assert told(BY_TIME, failed, at=seconds(2)).probe_at == seconds(32)


def test_begin_probe_leaves_the_other_states() -> None:
    for facts in (BreakerFacts(), BreakerFacts(HALF_OPEN, NOW)):
        assert begin_probe(BY_PROBES, facts, NOW) is facts
    assert begin_probe(BY_TIME, BreakerFacts(), NOW) == BreakerFacts()


def test_each_round_waits_for_the_one_before() -> None:
    facts = begin_probe(BY_TIME, BreakerFacts(HALF_OPEN, NOW, "dns", probe_at=NOW), seconds(5))
    assert facts == BreakerFacts(HALF_OPEN, NOW, "dns", probe_at=seconds(35))
    patient = replace(BY_TIME, successes_to_close=2)
    once = told(patient, facts, health="success", at=seconds(6))
    assert once == BreakerFacts(HALF_OPEN, NOW, "dns", successes=1, probe_at=seconds(6))
    assert admits(patient, once, seconds(6), probing=False) == "probe"


@pytest.mark.parametrize(("breaker", "failed", "refused"), [(BY_TIME, 60, 120), (BY_PROBES, 240, 360)])
def test_a_failed_probe_stands_back(breaker: Breaker, failed: float, refused: float) -> None:
    """Until the breaker could be closed by others, or by pings; longer if it was refused for good."""
    assert due_again(breaker, NOW, final=False) == seconds(failed)
    assert due_again(breaker, NOW, final=True) == seconds(refused)


def test_several_successes_may_be_asked_for() -> None:
    patient = replace(BY_PROBES, successes_to_close=3)
    facts = BreakerFacts(HALF_OPEN, NOW, "dns")
    for row in (1, 2):
        facts = told(patient, facts, health="success")
        assert facts == BreakerFacts(HALF_OPEN, NOW, "dns", row)
    assert told(patient, facts, health="success").state == CLOSED


def test_no_breaker_lets_everything_through_and_moves_nothing() -> None:
    assert admits(None, opened(), NOW, probing=True) == "all"
    assert told(None, BreakerFacts(), consecutive=10**6) == BreakerFacts()


@pytest.mark.parametrize("facts", [opened(), BreakerFacts(HALF_OPEN, NOW, "dns")])
def test_one_that_the_policy_lost_closes_with_the_next_outcome(facts: BreakerFacts) -> None:
    assert told(None, facts, health="none") is facts
    assert told(None, facts, at=seconds(9)) == BreakerFacts(CLOSED, seconds(9))


BREAKERS = st.builds(
    Breaker,
    failures=st.integers(1, 5),
    open_seconds=st.integers(1, 60).map(float),
    probe_seconds=st.integers(1, 60).map(float),
    probes=st.integers(1, 3),
    probes_to_half_open=st.integers(0, 3),
    successes_to_close=st.integers(1, 3),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["success", "failure", "none", "lost"])), max_size=60
)


@given(BREAKERS, STEPS)
def test_no_history_lets_more_through_than_it_may(breaker: Breaker, steps: list[tuple[int, str]]) -> None:
    """Plays an endpoint that always has due deliveries, one request or one round of probes at a time."""
    facts, health, now = BreakerFacts(), HealthFacts(), NOW
    opened_at: datetime | None = None
    rounds: list[datetime] = []
    for wait, outcome in steps:
        now += timedelta(seconds=wait)
        admission = admits(breaker, facts, now, probing=False)
        if facts.state == OPEN and admission == "probe":
            assert opened_at is not None
            assert now >= opened_at + timedelta(seconds=min(breaker.open_seconds, breaker.probe_seconds))
            if rounds and rounds[-1] > opened_at and breaker.probes_to_half_open:
                assert now - rounds[-1] >= timedelta(seconds=breaker.probe_seconds)
            rounds.append(now)
            facts = begin_probe(breaker, facts, now)
        assert admission != "all" or facts.state == CLOSED or breaker.probes_to_half_open
        if admission == "none" or outcome == "lost":
            continue
        health = health.after(outcome, now, None)  # type: ignore[arg-type]
        before = facts
        facts = told(
            breaker,
            facts,
            health=outcome,
            probe=admission == "probe",
            consecutive=health.consecutive,
            at=now,
        )
        if facts.state == OPEN and before.state != OPEN:
            opened_at = now
            assert facts.probe_at == now + timedelta(seconds=breaker.open_seconds)
        assert facts.state in {CLOSED, OPEN, HALF_OPEN}
        assert facts.state != CLOSED or health.consecutive < breaker.failures or before.state != CLOSED
        # Where time alone half-opens it, a round that fails is part of being open.
        same = breaker.probes_to_half_open == 0 and (before.state, facts.state) == (HALF_OPEN, OPEN)
        assert facts.at == (before.at if same or facts.state == before.state else now)


@given(BREAKERS)
def test_a_receiver_that_is_well_again_is_found_out(breaker: Breaker) -> None:
    facts, now, requests = opened(breaker.open_seconds), NOW, 0
    while facts.state != CLOSED:
        now += timedelta(seconds=1)
        if admits(breaker, facts, now, probing=False) != "none":
            requests += 1
            facts = begin_probe(breaker, facts, now)
            facts = told(breaker, facts, health="success", consecutive=0, at=now)
        assert now < seconds(600)
    assert requests == breaker.probes_to_half_open + breaker.successes_to_close
