"""The presets as documented: schedules, what is tried again, and what ends them."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.classify import Verdict, control_of, error_of, verdict
from webhooks_app.core.decide import Facts, Outcome, decide
from webhooks_app.core.policies import (
    EXPONENTIAL,
    PRESETS,
    QUICK,
    STANDARD,
    STRICT,
    AutoDisable,
    Breaker,
    Policy,
)
from webhooks_app.core.retry import jitter_of

NOW = datetime(2026, 10, 22, 10, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86_400
SERVER_ERRORS = set(range(500, 600))
NETWORK = ("timeout", "dns", "tls", "connect", "reset", "invalid_response")


def reply(status: int, **headers: str) -> AttemptResult:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return AttemptResult(error=error_of(status), http_status=status, headers=named)


Jitter = Callable[[int], float]


def nominal(step: int) -> float:
    return 0.5


def play(policy: Policy, result: AttemptResult, jitter: Jitter = nominal) -> tuple[list[float], Outcome]:
    """Return the offsets of all attempts, each answered at once with `result`, and the last outcome."""
    now, offsets = NOW, [0.0]
    facts = Facts(
        trigger="schedule",
        attempts=0,
        step=0,
        deferrals=0,
        recorded_at=NOW,
        expires_at=None,
        replay_until=NOW + timedelta(days=30),
    )
    while True:
        outcome = decide(policy, facts, result, now=now, jitter=jitter(facts.step))
        if outcome.due_at is None:
            return offsets, outcome
        now = outcome.due_at
        offsets.append((now - NOW).total_seconds())
        facts = replace(facts, attempts=facts.attempts + 1, step=outcome.step, deferrals=outcome.deferrals)


def with_verdict(wanted: Verdict, policy: Policy) -> set[int]:
    return {status for status in range(200, 600) if verdict(reply(status), policy) is wanted}


def test_there_are_four() -> None:
    assert {name: policy.name for name, policy in PRESETS.items()} == {
        name: name for name in ("standard", "strict", "exponential", "quick")
    }
    assert (PRESETS["standard"], PRESETS["strict"]) == (STANDARD, STRICT)
    assert (PRESETS["exponential"], PRESETS["quick"]) == (EXPONENTIAL, QUICK)


@pytest.mark.parametrize(
    ("policy", "connect", "total", "reply_bytes"),
    [(STANDARD, 5, 15, 4096), (STRICT, 5, 20, 8192), (EXPONENTIAL, 5, 20, 8192), (QUICK, 5, 10, 4096)],
)
def test_limits_of_a_request(policy: Policy, connect: float, total: float, reply_bytes: int) -> None:
    assert (policy.connect_timeout, policy.total_timeout) == (connect, total)
    assert policy.reply_bytes == reply_bytes


@pytest.mark.parametrize(
    ("policy", "retried"),
    [
        (STANDARD, set(range(300, 600)) - {410}),
        (STRICT, {401, 407, 409, 429} | SERVER_ERRORS),
        (EXPONENTIAL, {408, 429} | SERVER_ERRORS | set(range(300, 400))),
        (QUICK, {408, 429} | SERVER_ERRORS),
    ],
)
def test_statuses_that_are_tried_again(policy: Policy, retried: set[int]) -> None:
    verdicts = {status: verdict(reply(status), policy) for status in range(200, 600)}
    assert {status for status, judged in verdicts.items() if judged is Verdict.RETRY} == retried
    assert {status for status, judged in verdicts.items() if judged is Verdict.SUCCESS} == set(
        range(200, 300)
    )


@pytest.mark.parametrize("policy", PRESETS.values(), ids=PRESETS)
def test_no_answer_is_tried_again_everywhere(policy: Policy) -> None:
    assert {verdict(AttemptResult(error=error), policy) for error in NETWORK} == {Verdict.RETRY}


@pytest.mark.parametrize("error", ["ssrf_blocked", "invalid_url"])
def test_a_refused_address_is_final_but_under_standard(error: str) -> None:
    again = [
        name
        for name, policy in PRESETS.items()
        if verdict(AttemptResult(error=error), policy) is Verdict.RETRY
    ]
    assert again == ["standard"]


def test_a_gone_endpoint_is_disabled_by_standard_and_strict() -> None:
    disabling = [name for name, policy in PRESETS.items() if play(policy, reply(410))[1].disable]
    assert disabling == ["standard", "strict"]
    states = {play(policy, reply(410))[1].state for policy in PRESETS.values()}
    assert states == {"failed_permanent"}


def test_the_control_header_works_but_under_quick() -> None:
    asked = reply(503, webhook_delivery="abort-message")
    assert [name for name, policy in PRESETS.items() if control_of(asked, policy)] == [
        "standard",
        "strict",
        "exponential",
    ]


def test_health_rules() -> None:
    assert {name: policy.auto_disable for name, policy in PRESETS.items()} == {
        "standard": AutoDisable(failures=100, span=DAY),
        "strict": AutoDisable(
            failures=2, span=5 * DAY, start_within=DAY, start_span=DAY / 2, warnings=(0.6,)
        ),
        "exponential": None,
        "quick": None,
    }
    assert {name: policy.breaker for name, policy in PRESETS.items()} == {
        "standard": None,
        "strict": Breaker(10, 30, 30, 3, 0, 1),
        "exponential": Breaker(30, 60, 60, 1, 2, 1),
        "quick": None,
    }
    assert [name for name, policy in PRESETS.items() if policy.notify_tenant] == ["strict"]
    assert [name for name, policy in PRESETS.items() if policy.warns_redirect] == ["strict"]


def test_replays() -> None:
    assert [name for name, policy in PRESETS.items() if policy.replay_id == "new"] == ["exponential"]
    assert [name for name, policy in PRESETS.items() if not policy.replay_while_open] == ["exponential"]


def test_defaults_of_new_endpoints() -> None:
    assert [
        (name, policy.default_signing, policy.default_format, policy.default_ordering)
        for name, policy in PRESETS.items()
    ] == [
        ("standard", ("v1",), "envelope", "none"),
        ("strict", ("v1a",), "cloudevents", "none"),
        ("exponential", ("v1",), "envelope", "none"),
        ("quick", ("sha256",), "cloudevents", "fifo"),
    ]
    assert [policy.default_max_in_flight for policy in PRESETS.values()] == [100, 100, 100, 1]


def test_strict_makes_ten_attempts_over_three_days() -> None:
    offsets, outcome = play(STRICT, reply(500))
    waits = [5, 5 * MINUTE, 30 * MINUTE, *(hours * HOUR for hours in (2, 5, 10, 14, 20, 24))]
    assert offsets == [sum(waits[:count]) for count in range(10)]
    assert offsets[-1] == 75 * HOUR + 35 * MINUTE + 5
    assert (outcome.state, outcome.step) == ("exhausted", 9)


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=9, max_size=9))
def test_no_jitter_makes_strict_end_by_its_window(jitters: list[float]) -> None:
    offsets, outcome = play(STRICT, reply(500), lambda step: jitters[min(step, 8)])
    assert (len(offsets), outcome.state) == (10, "exhausted")
    assert all(
        0.8 * wait - 0.5 <= later - sooner <= 1.2 * wait + 0.5
        for wait, sooner, later in zip(STRICT.waits, offsets, offsets[1:], strict=False)
    )


def test_the_longest_wait_of_strict_keeps_all_of_its_jitter() -> None:
    longest = play(STRICT, reply(500), lambda _: 1 - 1e-9)[0]
    assert longest[-1] - longest[-2] == 1.2 * DAY
    assert longest[-1] < STRICT.window == 96 * HOUR


@pytest.mark.parametrize("value", ["60", "999999999"])
def test_strict_defers_three_times_for_free(value: str) -> None:
    facts = Facts(
        trigger="schedule",
        attempts=0,
        step=8,
        deferrals=0,
        recorded_at=NOW,
        expires_at=None,
        replay_until=None,
    )
    for status in (429, 503):
        outcome = decide(STRICT, facts, reply(status, retry_after=value), now=NOW, jitter=0.5)
        assert (outcome.step, outcome.deferrals) == (8, 1)
        used = decide(
            STRICT, replace(facts, deferrals=3), reply(status, retry_after=value), now=NOW, jitter=0.5
        )
        assert (used.step, used.deferrals) == (9, 3)
    assert decide(STRICT, facts, reply(500, retry_after=value), now=NOW, jitter=0.5).step == 9


def test_exponential_fits_fourteen_attempts_into_its_three_days() -> None:
    offsets, outcome = play(EXPONENTIAL, reply(500))
    assert offsets == [30 * (2**count - 1) for count in range(14)]
    assert round(offsets[-1] / HOUR, 1) == 68.3
    assert (outcome.state, outcome.error) == ("exhausted", "status_5xx")


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=14, max_size=14))
def test_the_window_ends_exponential_whatever_the_jitter(jitters: list[float]) -> None:
    seen: list[int] = []

    def jitter(step: int) -> float:
        seen.append(step)
        return jitters[step]  # fails at a step past the waits

    offsets, outcome = play(EXPONENTIAL, reply(500), jitter)
    assert outcome.state == "exhausted"
    assert max(seen) <= 13
    assert offsets[-1] < 3 * DAY
    assert 13 <= len(offsets) <= 15


def test_even_the_smallest_jitter_leaves_the_end_to_the_window() -> None:
    offsets, outcome = play(EXPONENTIAL, reply(500), lambda _: 0.0)
    assert len(offsets) == 14
    assert outcome.step == 13 < len(EXPONENTIAL.waits)


def test_a_retry_after_may_ask_exponential_for_all_of_the_time_left() -> None:
    within = play(EXPONENTIAL, reply(429, retry_after=str(3 * DAY - 1)))
    assert (within[0], within[1].state) == ([0, 3 * DAY - 1], "exhausted")
    beyond = play(EXPONENTIAL, reply(429, retry_after=str(3 * DAY)))
    assert (beyond[0], beyond[1].state) == ([0], "window_exceeded")


def test_quick_makes_five_attempts_in_fifteen_seconds() -> None:
    for jitter in (lambda _: 0.0, lambda _: 0.99):
        offsets, outcome = play(QUICK, reply(503), jitter)
        assert offsets == [0, 1, 3, 7, 15]
        assert outcome.state == "exhausted"


def test_a_retry_after_raises_a_wait_of_quick() -> None:
    assert play(QUICK, reply(503, retry_after="5"))[0] == [0, 5, 10, 15, 23]


def test_the_jitter_of_strict_is_the_deliverys() -> None:
    def offsets(delivery: str, chance: float) -> list[float]:
        return play(
            STRICT,
            reply(500),
            lambda step: jitter_of(STRICT, delivery=delivery, step=step, chance=chance),
        )[0]

    assert offsets("dlv_1", 0.1) == offsets("dlv_1", 0.9) != offsets("dlv_2", 0.1)
