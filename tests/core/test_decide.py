"""The whole policy: what follows from one attempt, under `standard` and under its variations."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.classify import OURS, error_of
from webhooks_app.core.decide import (
    AttemptStatus,
    Facts,
    Outcome,
    Trigger,
    decide,
    end_before_attempt,
)
from webhooks_app.core.policies import PRESETS, STANDARD, Policy
from webhooks_app.core.states import DEAD, ENDED, ERRORS, State, move

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
FACTS = Facts(
    trigger="schedule",
    attempts=0,
    step=0,
    deferrals=0,
    recorded_at=NOW,
    expires_at=None,
    replay_until=NOW + timedelta(days=30),
)


def reply(status: int, **headers: str) -> AttemptResult:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return AttemptResult(error=error_of(status), http_status=status, headers=named)


def after(result: AttemptResult, policy: Policy = STANDARD, jitter: float = 0.5, **facts: Any) -> Outcome:
    return decide(policy, replace(FACTS, **facts), result, now=NOW, jitter=jitter)


def seconds(outcome: Outcome) -> float | None:
    return None if outcome.due_at is None else (outcome.due_at - NOW).total_seconds()


@pytest.mark.parametrize("trigger", get_args(Trigger))
def test_success_delivers(trigger: str) -> None:
    outcome = after(reply(204), trigger=trigger, step=3, deferrals=1)
    assert outcome == Outcome(
        state="delivered",
        attempt_status="succeeded",
        error="",
        due_at=None,
        step=3,
        deferrals=1,
        hold_until=None,
        disable=None,
        health="none" if trigger == "test" else "success",
    )


def test_success_after_expiry_still_delivers() -> None:
    assert after(reply(200), expires_at=NOW - timedelta(days=1)).state == "delivered"


def test_thirteen_failed_attempts_as_printed_then_exhausted() -> None:
    facts, now, offsets = FACTS, NOW, []
    while True:
        offsets.append((now - NOW).total_seconds())
        outcome = decide(STANDARD, facts, reply(500), now=now, jitter=0.5)
        if outcome.due_at is None:
            break
        assert (outcome.state, outcome.attempt_status, outcome.error) == ("pending", "failed", "status_5xx")
        now = outcome.due_at
        facts = replace(facts, attempts=facts.attempts + 1, step=outcome.step)
    # fmt: off
    assert offsets == [
        0, 30, 150, 750, 2550, 6150, 13_350, 27_750, 56_550, 99_750, 142_950, 186_150, 254_550,
    ]
    # fmt: on
    assert (outcome.state, outcome.attempt_status, outcome.error) == ("exhausted", "dead", "status_5xx")


@pytest.mark.parametrize(
    ("result", "state", "error", "disable", "health"),
    [
        (reply(410), "failed_permanent", "status_410", "gone", "failure"),
        (reply(410, webhook_delivery="disable"), "failed_permanent", "status_410", "gone", "failure"),
        (
            reply(503, webhook_delivery="abort-message"),
            "failed_permanent",
            "aborted_by_consumer",
            None,
            "failure",
        ),
        (
            reply(410, webhook_delivery="abort-message"),
            "failed_permanent",
            "aborted_by_consumer",
            "gone",
            "failure",
        ),
        (reply(404, webhook_delivery="disable"), "pending", "status_4xx", "consumer", "failure"),
        (reply(200, webhook_delivery="disable"), "delivered", "", "consumer", "success"),
        (reply(200, webhook_delivery="abort-message"), "delivered", "", None, "success"),
        (reply(302), "pending", "redirect", None, "failure"),
        (reply(404), "pending", "status_4xx", None, "failure"),
        (reply(103), "pending", "invalid_response", None, "failure"),
        (AttemptResult(error="ssrf_blocked"), "pending", "ssrf_blocked", None, "failure"),
        (AttemptResult(error="dns"), "pending", "dns", None, "failure"),
        (AttemptResult(error="secret_unavailable"), "pending", "secret_unavailable", None, "none"),
        (AttemptResult(error="worker_lost"), "pending", "worker_lost", None, "none"),
        (AttemptResult(error="event_unavailable"), "dead_lettered", "event_unavailable", None, "none"),
        (AttemptResult(error="payload_too_large"), "dead_lettered", "payload_too_large", None, "none"),
        (AttemptResult(error="endpoint_deleted"), "dead_lettered", "endpoint_deleted", None, "none"),
        (AttemptResult(error="endpoint_disabled"), "dead_lettered", "endpoint_disabled", None, "none"),
    ],
)
def test_what_a_scheduled_attempt_leads_to(
    result: AttemptResult, state: str, error: str, disable: str | None, health: str
) -> None:
    outcome = after(result)
    assert (outcome.state, outcome.error, outcome.disable, outcome.health) == (state, error, disable, health)
    status = {"pending": "failed", "delivered": "succeeded"}.get(state, "dead")
    assert outcome.attempt_status == status
    assert (seconds(outcome), outcome.step) == ((30, 1) if state == "pending" else (None, 0))


def test_a_policy_may_leave_the_endpoint_on_after_a_410() -> None:
    outcome = after(reply(410), replace(STANDARD, gone_disables=False))
    assert (outcome.state, outcome.disable) == ("failed_permanent", None)


@pytest.mark.parametrize(
    ("status", "value", "wait", "hold"),
    [
        (429, "120", 120, 120),
        (503, "120", 120, 120),
        (503, "10", 30, 10),
        (503, "0", 30, None),
        (503, "abc", 30, None),
        (429, "0", 30, 1),
        (500, "120", 120, None),
        (404, "120", 120, None),
        (302, "120", 120, None),
        (103, "120", 30, None),
        (429, "999999999", 86_400, 86_400),
        (429, "Thu, 22 Oct 2026 10:02:00 GMT", 120, 120),
        (429, "Thu, 22 Oct 2020 10:02:00 GMT", 30, 1),
        (429, "Fri, 31 Dec 9999 23:59:59 GMT", 86_400, 86_400),
        (429, "-1", 30, 1),
        (429, "1.5", 30, 1),
        (429, "abc", 30, 1),
        (429, "9" * 5000, 30, 1),
    ],
    ids=lambda value: str(value)[:20],
)
def test_retry_after_raises_the_wait_and_holds_the_endpoint(
    status: int, value: str, wait: float, hold: float | None
) -> None:  # B106
    outcome = after(reply(status, retry_after=value))
    assert (seconds(outcome), outcome.step, outcome.deferrals) == (wait, 1, 0)
    assert outcome.hold_until == (None if hold is None else NOW + timedelta(seconds=hold))


def test_retry_after_on_a_success_or_twice_means_nothing() -> None:
    assert after(reply(200, retry_after="120")).hold_until is None
    twice = replace(reply(429), headers=(("Retry-After", "60"), ("Retry-After", "90")))
    assert seconds(after(twice)) == 30


def test_a_429_that_asks_for_nothing_gives_the_receiver_a_breath() -> None:  # B117
    assert after(reply(429)).hold_until == NOW + timedelta(seconds=1)
    assert after(reply(429), replace(STANDARD, retry_after_on=frozenset())).hold_until is not None
    assert after(reply(503)).hold_until is None


def test_the_last_failure_still_holds_the_endpoint() -> None:
    outcome = after(reply(503, retry_after="60"), step=12)
    assert (outcome.state, outcome.hold_until) == ("exhausted", NOW + timedelta(seconds=60))


def test_deferrals_cost_no_step_as_often_as_the_policy_says() -> None:
    policy = replace(STANDARD, free_deferrals=3, retry_after_on=frozenset({429, 503}))
    busy = reply(429, retry_after="40")
    first, last, over = (after(busy, policy, step=4, deferrals=used) for used in (0, 2, 3))
    assert (first.step, first.deferrals, seconds(first)) == (4, 1, 3600)
    assert (last.step, last.deferrals) == (4, 3)
    assert (over.step, over.deferrals) == (5, 3)
    assert after(reply(429), policy, step=4).step == 5
    assert after(reply(500, retry_after="40"), policy, step=4).step == 5
    at_the_end = after(busy, policy, step=12)
    assert (at_the_end.state, seconds(at_the_end), at_the_end.step) == ("pending", 40, 12)
    assert after(busy, policy, step=12, deferrals=3).state == "exhausted"


@pytest.mark.parametrize("field", ["expires_at", "replay_until"])
@pytest.mark.parametrize(
    ("ahead", "state"), [(29, "expired"), (30, "expired"), (31, "pending"), (-5, "expired")]
)
def test_a_retry_that_would_come_too_late_ends_the_delivery_now(field: str, ahead: int, state: str) -> None:
    outcome = after(reply(500), **{field: NOW + timedelta(seconds=ahead)})
    assert (outcome.state, outcome.error) == (state, "status_5xx")
    assert outcome.attempt_status == ("dead" if state == "expired" else "failed")
    assert outcome.health == "failure"


def test_retry_after_beyond_the_end_of_life_expires() -> None:
    limit = NOW + timedelta(minutes=1)
    assert after(reply(503, retry_after="50"), expires_at=limit).state == "pending"
    assert after(reply(503, retry_after="60"), expires_at=limit).state == "expired"


def test_a_schedule_may_end_by_the_clock() -> None:
    policy = replace(STANDARD, window=100.0)
    assert after(reply(500), policy).state == "pending"
    assert after(reply(500), policy, recorded_at=NOW - timedelta(seconds=69)).state == "pending"
    assert after(reply(500), policy, recorded_at=NOW - timedelta(seconds=70)).state == "exhausted"


def test_only_a_retry_after_that_leads_past_the_window_exceeds_it() -> None:
    policy = replace(STANDARD, window=100.0, free_deferrals=1)
    assert after(reply(503, retry_after="99"), policy).state == "pending"
    raised = after(reply(503, retry_after="100"), policy)
    assert (raised.state, raised.error, raised.attempt_status) == ("window_exceeded", "status_5xx", "dead")
    late = {"recorded_at": NOW - timedelta(seconds=70)}
    assert after(reply(503, retry_after="500"), policy, **late).state == "exhausted"  # as without it
    assert after(reply(503, retry_after="29"), policy, **late).state == "exhausted"
    at_the_end = after(reply(503, retry_after="100"), policy, step=12)
    assert at_the_end.state == "window_exceeded"  # a free wait, but none of the schedule's
    assert after(reply(503, retry_after="100"), policy, step=12, deferrals=1).state == "exhausted"


def test_a_time_to_live_counts_from_the_start() -> None:
    policy = replace(STANDARD, time_to_live=100.0)
    assert after(reply(500), policy, recorded_at=NOW - timedelta(seconds=69)).state == "pending"
    assert after(reply(500), policy, recorded_at=NOW - timedelta(seconds=70)).state == "expired"
    assert after(reply(503, retry_after="100"), policy).state == "expired"


def test_what_is_both_expired_and_out_of_its_window_is_expired() -> None:
    policy = replace(STANDARD, window=10.0)
    assert after(reply(500), policy, expires_at=NOW + timedelta(seconds=20)).state == "expired"
    assert after(reply(503, retry_after="90"), policy, replay_until=NOW).state == "expired"


START = 1_800_000_000.0


@pytest.mark.parametrize(
    ("limits", "times", "expected"),
    [
        ({}, {}, None),
        ({}, {"now": START + 10**9}, None),
        ({}, {"expires": START + 10, "now": START + 9.999}, None),
        ({}, {"expires": START + 10, "now": START + 10}, "expired"),
        ({}, {"replay_until": START + 10, "now": START + 9.999}, None),
        ({}, {"replay_until": START + 10, "now": START + 10}, "expired"),
        ({"time_to_live": 10.0}, {"now": START + 9.999}, None),
        ({"time_to_live": 10.0}, {"now": START + 10}, "expired"),
        ({"window": 10.0}, {"now": START + 9.999}, None),
        ({"window": 10.0}, {"now": START + 10}, "window_exceeded"),
        ({"window": 5.0, "time_to_live": 10.0}, {"now": START + 10}, "expired"),
        ({"window": 10.0}, {"now": START + 10, "expires": START + 1}, "expired"),
        ({"window": 10.0}, {"now": START - 5}, None),
    ],
)
def test_how_a_delivery_ends_before_its_attempt(
    limits: dict[str, float], times: dict[str, float], expected: str | None
) -> None:
    given_: dict[str, Any] = {"started": START, "expires": None, "replay_until": START + 10**10, "now": START}
    assert end_before_attempt(replace(STANDARD, **limits), **(given_ | times)) == expected  # type: ignore[arg-type]


@given(
    st.none() | st.floats(1, 10**6),
    st.none() | st.floats(1, 10**6),
    st.none() | st.integers(1, 10**6),
    st.integers(0, 10**6),
)
def test_what_a_retry_is_scheduled_for_may_start_then(
    window: float | None, life: float | None, expires: int | None, asked: int
) -> None:
    """Both rules have the same edges: what `decide` plans is not ended by `end_before_attempt` in time."""
    policy = replace(STANDARD, window=window, time_to_live=life)
    expires_at = None if expires is None else NOW + timedelta(seconds=expires)
    outcome = after(reply(503, retry_after=str(asked)), policy, expires_at=expires_at)
    if outcome.due_at is not None:
        end = end_before_attempt(
            policy,
            started=NOW.timestamp(),
            expires=None if expires_at is None else expires_at.timestamp(),
            replay_until=FACTS.replay_until.timestamp() if FACTS.replay_until else 0,
            now=outcome.due_at.timestamp(),
        )
        assert end is None


@pytest.mark.parametrize("trigger", ["manual", "probe"])
@pytest.mark.parametrize("state", ["pending", "exhausted", "delivered"])
@pytest.mark.parametrize("result", [reply(500), reply(410), reply(400, webhook_delivery="abort-message")])
def test_an_attempt_beside_the_schedule_that_fails_changes_nothing(
    trigger: str, state: str, result: AttemptResult
) -> None:
    outcome = after(result, trigger=trigger, state=state, step=5, deferrals=2)
    assert (outcome.state, outcome.due_at, outcome.step, outcome.deferrals) == (state, None, 5, 2)
    assert (outcome.attempt_status, outcome.health) == ("failed", "failure")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        ("event_unavailable", "dead_lettered"),
        ("payload_too_large", "dead_lettered"),
        ("endpoint_deleted", "dead_lettered"),
        ("secret_unavailable", "pending"),
        ("worker_lost", "pending"),
    ],
)
def test_a_probe_with_nothing_to_send_ends_its_delivery(error: str, state: str) -> None:
    outcome = after(AttemptResult(error=error), trigger="probe")
    assert (outcome.state, outcome.health) == (state, "none")
    assert after(AttemptResult(error=error), trigger="manual").state == "pending"
    assert after(AttemptResult(error=error), trigger="probe", state="exhausted").state == "exhausted"


@pytest.mark.parametrize("trigger", ["schedule", "probe"])
@pytest.mark.parametrize(
    ("ahead", "error", "state"),
    [
        (1, "event_unavailable", "dead_lettered"),
        (0, "event_unavailable", "expired"),
        (0, "payload_too_large", "dead_lettered"),
    ],
)
def test_a_body_that_the_retention_took_is_expired_and_one_that_was_erased_is_not(
    ahead: int, error: str, state: str, trigger: str
) -> None:
    until = NOW + timedelta(seconds=ahead)
    assert after(AttemptResult(error=error), trigger=trigger, replay_until=until).state == state


def test_a_manual_attempt_counts_for_the_endpoint() -> None:
    assert after(reply(410), trigger="manual").disable == "gone"
    assert after(reply(429, retry_after="60"), trigger="manual").hold_until == NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    "result", [reply(500), reply(410), reply(429, retry_after="60"), reply(500, webhook_delivery="disable")]
)
def test_a_test_moves_nothing_and_is_never_retried(result: AttemptResult) -> None:  # B030
    outcome = after(result, trigger="test")
    assert (outcome.state, outcome.attempt_status, outcome.due_at) == ("exhausted", "failed", None)
    assert (outcome.health, outcome.hold_until, outcome.disable) == ("none", None, None)
    assert (outcome.step, outcome.deferrals) == (0, 0)


def test_a_good_test_asks_for_nothing_either() -> None:
    assert after(reply(200, webhook_delivery="disable"), trigger="test").disable is None


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["Retry-After", "webhook-delivery", "X"]),
        st.sampled_from(["abort-message", "disable", "0", "5", "4000", "99999999999"]) | st.text(max_size=8),
    ),
    max_size=3,
).map(tuple)
REPLIES = st.builds(
    lambda status, headers: AttemptResult(error=error_of(status), http_status=status, headers=headers),
    st.integers(-1, 1100) | st.sampled_from([200, 410, 429, 503]),
    HEADERS,
)
RESULTS = REPLIES | st.builds(AttemptResult, error=st.sampled_from(sorted(ERRORS)), headers=HEADERS)
LIMITS = st.none() | st.integers(-100, 10**7).map(lambda ahead: NOW + timedelta(seconds=ahead))
ANY_FACTS = st.builds(
    Facts,
    trigger=st.sampled_from(get_args(Trigger)),
    attempts=st.integers(0, 40),
    step=st.integers(0, 15),
    deferrals=st.integers(0, 4),
    recorded_at=st.just(NOW - timedelta(hours=1)),
    expires_at=LIMITS,
    replay_until=LIMITS,
    state=st.sampled_from(State),
)
POLICIES = st.builds(
    lambda policy, deferrals, window: replace(
        policy, free_deferrals=deferrals, window=window, max_wait=86_400.0, waits=policy.waits[:12]
    ),
    st.sampled_from(list(PRESETS.values())),
    st.integers(0, 3),
    st.none() | st.floats(0, 10**6),
)
JITTERS = st.floats(0, 1, exclude_max=True)


@given(POLICIES, ANY_FACTS, RESULTS, JITTERS)
def test_every_result_has_a_sound_outcome(
    policy: Policy, facts: Facts, result: AttemptResult, jitter: float
) -> None:
    outcome = decide(policy, facts, result, now=NOW, jitter=jitter)
    assert outcome.attempt_status in get_args(AttemptStatus)
    assert outcome.error == "" if result.ok else outcome.error in ERRORS
    assert outcome.step - facts.step in {0, 1}
    assert outcome.deferrals - facts.deferrals in {0, 1}
    assert outcome.hold_until is None or NOW < outcome.hold_until <= NOW + timedelta(days=1)
    assert (outcome.attempt_status == "succeeded") == result.ok == (outcome.error == "")
    assert result.error not in OURS or outcome.health == "none"
    if facts.trigger != "test":
        move(facts.state if facts.trigger != "schedule" else "pending", outcome.state)


@given(POLICIES, ANY_FACTS, RESULTS, JITTERS)
def test_a_scheduled_attempt_ends_or_comes_due_again_in_time(
    policy: Policy, facts: Facts, result: AttemptResult, jitter: float
) -> None:
    facts = replace(facts, trigger="schedule", state="pending")
    outcome = decide(policy, facts, result, now=NOW, jitter=jitter)
    assert (
        (outcome.due_at is not None) == (outcome.state == "pending") == (outcome.attempt_status == "failed")
    )
    assert (outcome.attempt_status == "dead") == (outcome.state in DEAD)
    if outcome.due_at is not None:
        assert NOW < outcome.due_at <= NOW + timedelta(days=1)
        assert all(outcome.due_at < limit for limit in (facts.expires_at, facts.replay_until) if limit)
        assert outcome.step + outcome.deferrals == facts.step + facts.deferrals + 1
    else:
        assert outcome.state in ENDED


@given(st.integers(0, 11), JITTERS, st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_longer_retry_after_never_comes_sooner(step: int, jitter: float, one: int, other: int) -> None:
    low, high = sorted((one, other))
    plain = seconds(after(reply(503), step=step, jitter=jitter))
    sooner, later = (
        seconds(after(reply(503, retry_after=str(asked)), step=step, jitter=jitter)) for asked in (low, high)
    )
    assert plain is not None
    assert sooner is not None
    assert later is not None
    assert plain <= sooner <= later <= 86_400
