"""The policy `strict`, line by line: its schedule, its answers and the ends of its deliveries.

Each docstring says in our own words which rule it checks. What it does about an endpoint's health is in
`test_strict_health.py`.
"""

import hashlib
import json
from datetime import timedelta

import pytest

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.driving import now
from tests.conformance.troubles import Trouble
from tests.conformance.walking import (
    ALONE,
    OK,
    OOPS,
    STATUSES,
    Walk,
    attempts_of,
    audited,
    busy,
    endings,
    heard,
    offsets,
    planned,
    states,
    told,
)
from tests.net.servers import reply
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.core.policies import STRICT
from webhooks_app.core.retry import jitter_of, next_wait
from webhooks_app.exceptions import InvalidRequest
from webhooks_app.models import Delivery

HOUR = 3600
WAITS = [5, 300, 1800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR]
OFFSETS = [sum(WAITS[:count]) for count in range(10)]
RETRIED = {401, 407, 409, 429, *range(500, 600)}


def test_the_waits_are_exactly_these(walk: Walk):
    """Schedule: ten attempts; before them 0, 5 s, 5, 30 min, 2, 5, 10, 14, 20, 24 h: 75:35:05 in all."""
    walk.subscribe("strict", {"jitter_kind": "none"})
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    made = walk.play(delivery)
    assert planned(made) == WAITS
    assert OFFSETS[-1] == 75 * HOUR + 35 * 60 + 5
    assert all(abs(real - due) <= 2 for real, due in zip(offsets(made), OFFSETS, strict=True))
    assert [each.status for each in made] == ["failed"] * 9 + ["dead"]
    assert (delivery.state, delivery.last_error) == ("exhausted", "status_5xx")


def test_jitter_is_a_fifth_and_follows_from_the_delivery(walk: Walk):
    """Schedule: ±20 % of each wait, derived from the delivery's id, so anybody can work them out."""
    walk.subscribe("strict", ALONE)
    walk.consumer.always = OOPS
    several = {}
    for _ in range(2):
        (delivery,) = walk.emit()
        several[delivery.public_id] = planned(walk.play(delivery))
    for public_id, waits in several.items():
        pairs = zip(waits, WAITS, strict=True)
        assert all(0.8 * nominal <= wait <= 1.2 * nominal for wait, nominal in pairs)
        jitters = [jitter_of(STRICT, delivery=public_id, step=step, chance=0.123) for step in range(9)]
        worked_out = [next_wait(STRICT, step, jitter) for step, jitter in enumerate(jitters)]
        assert waits == pytest.approx(worked_out, abs=1e-5)
    first, second = several.values()
    assert first != second


def test_the_same_delivery_waits_the_same_again(walk: Walk):
    """Schedule: repeated from its start, the same delivery has the same waits to the microsecond."""
    walk.subscribe("strict", {"breaker": False})
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    once = planned(walk.play(delivery))
    again = {"state": "pending", "due_at": now(), "finished_at": None, "step": 0, "started_at": now()}
    Delivery.objects.update(**again)
    assert planned(walk.play(delivery))[9:] == once


def test_an_endpoints_own_schedule_has_bounds(walk: Walk):
    """Schedule: changed per endpoint within bounds; there is no retry without end."""
    walk.subscribe("strict", {"waits": [10, 20], "jitter": 0.0})
    walk.consumer.always = OOPS
    assert planned(walk.play(walk.emit()[0])) == [10, 20]
    for waits in ([0.5], [1] * 30, [691_201]):
        with pytest.raises(InvalidRequest):
            walk.subscribe("strict", {"waits": waits})


def test_what_each_status_leads_to(walk: Walk):
    """Answers: 2xx delivers; 401 407 409 429 and 5xx are retried; 3xx and other 4xx are final."""
    walk.subscribe("strict", ALONE, max_in_flight=1000)
    found = {status: state for status, (state, _) in walk.answers(STATUSES).items()}
    assert {status for status, state in found.items() if state == "delivered"} == set(range(200, 300))
    assert {status for status, state in found.items() if state == "pending"} == RETRIED
    assert {status for status, state in found.items() if state == "failed_permanent"} == (
        set(range(300, 500)) - RETRIED - {410}
    )


def test_410_is_final_and_disables_at_once(walk: Walk):
    """Answers: 410 ends the message and disables the endpoint; what else is queued ends undelivered."""
    walk.subscribe("strict")
    walk.consumer.answer(OOPS, reply("410 Gone", b""))
    waiting, gone = walk.emit(2)
    assert states([waiting, gone]) == ["pending", "failed_permanent"]
    assert (walk.state.enabled, walk.state.disabled_reason) == (False, "gone")
    walk.play(waiting)
    assert (waiting.state, waiting.last_error, walk.requests) == ("dead_lettered", "endpoint_disabled", 2)


def test_a_redirect_is_final_and_a_warning(walk: Walk):
    """Answers: 3xx is not followed, not retried, and a warning about the endpoint, told once."""
    walk.subscribe("strict")
    walk.consumer.always = reply("302 Found", b"", f"Location: {walk.consumer.url}")
    (first,) = walk.emit()
    (attempt,) = attempts_of(first)
    assert (first.state, attempt.error, attempt.status) == ("failed_permanent", "redirect", "dead")
    walk.emit(3)
    assert walk.requests == 4
    assert walk.state.health_warning == "redirect"
    (event,) = told("webhook.warning")
    assert json.loads(bytes(event.body))["data"]["reason"] == "redirect"
    assert audited("webhook.warned") == [("webhook.warned", "redirect")]


def test_redirects_now_and_then_are_one_episode(walk: Walk):
    """Health: one success resets what is shown; people are told once, until a day has passed without one."""
    walk.subscribe("strict")
    moved = reply("301 Moved", b"", "Location: /other")
    walk.consumer.answer(*[moved, OK] * 4)
    for hours in (0, 1, 23):
        walk.wait(hours=hours)
        for expected in ("redirect", ""):
            walk.emit()
            assert walk.state.health_warning == expected
        assert len(told("webhook.warning")) == len(audited("webhook.warned")) == 1
    walk.wait(hours=24)
    walk.emit()
    assert walk.state.health_warning == "redirect"
    assert len(told("webhook.warning")) == len(audited("webhook.warned")) == 2


@pytest.mark.parametrize("kind", ["connect", "dns", "tls", "timeout", "reset", "invalid_response"])
def test_no_answer_is_retried(walk: Walk, product, monkeypatch: pytest.MonkeyPatch, kind: str):
    """Answers: connection, time-out and TLS errors are retried, whatever phase they come from."""
    endpoint = walk.subscribe("strict")
    getattr(Trouble(endpoint, walk.consumer, product, monkeypatch), kind)()
    (delivery,) = walk.emit()
    (attempt,) = attempts_of(delivery)
    assert (attempt.error, attempt.status, delivery.state) == (kind, "failed", "pending")
    assert 4 <= planned([attempt])[0] <= 6


def test_a_refused_address_is_final(walk: Walk, product):
    """Addresses: what the guard refuses is not sent and not retried."""
    walk.subscribe("strict")
    product(ALLOW_NETWORKS=[])
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error) == ("failed_permanent", "ssrf_blocked")
    assert walk.requests == 0


@pytest.mark.parametrize("status", [429, 503])
def test_the_longer_of_schedule_and_retry_after(walk: Walk, status: int):
    """Retry-After: on 429 and 503 the longer of both waits applies; a shorter one shortens nothing."""
    walk.subscribe("strict", {"jitter_kind": "none"})
    walk.consumer.answer(busy(status, "60"), busy(status, "2"), OOPS, OOPS)
    (delivery,) = walk.emit()
    assert planned(walk.play(delivery)) == [60, 5, 5, 300]
    assert delivery.state == "delivered"


@pytest.mark.parametrize("status", [500, 502, 401, 409])
def test_other_statuses_cannot_ask_for_more(walk: Walk, status: int):
    """Retry-After: with any other status it says nothing."""
    walk.subscribe("strict", {"jitter_kind": "none"})
    walk.consumer.answer(busy(status, "6000"))
    assert planned(attempts_of(walk.emit()[0])) == [5]


def test_three_deferrals_cost_no_attempt_of_the_schedule(walk: Walk):
    """Retry-After: such deferrals use up no attempt, three times per message; the fourth does."""
    walk.subscribe("strict", {"jitter_kind": "none", "breaker": False})
    walk.consumer.always = OOPS
    walk.consumer.answer(*[busy(429, "60")] * 4)
    (delivery,) = walk.emit()
    made = walk.play(delivery)
    assert planned(made) == [60, 60, 60, 60, *WAITS[1:]]
    assert (len(made), delivery.deferrals, delivery.step) == (13, 3, 9)


def test_deferrals_count_per_message(walk: Walk):
    """Retry-After: each message has three of its own."""
    walk.subscribe("strict", {"jitter_kind": "none", "breaker": False})
    walk.consumer.answer(*[busy(503, "60")] * 3)
    first = walk.emit()[0]
    walk.play(first)
    walk.consumer.answer(*[busy(503, "60")] * 3)
    second = walk.emit()[0]
    walk.play(second)
    assert [(each.state, each.deferrals, each.step) for each in (first, second)] == [("delivered", 3, 0)] * 2


def test_a_retry_after_beyond_the_window_ends_it(walk: Walk):
    """Ends: when only waiting as asked no longer fits into the window, it is `window_exceeded`."""
    walk.subscribe("strict", {"jitter_kind": "none", "max_wait": 6 * 86_400, "window": 3600})
    walk.consumer.answer(busy(503, "3601"))
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error, delivery.attempts) == ("window_exceeded", "status_5xx", 1)


@pytest.mark.parametrize("answer", ["500 Oops", "429 Busy", "404 Nothing"])
def test_a_consumer_may_give_a_message_up(walk: Walk, answer: str):
    """Answers: the header `webhook-delivery: abort-message` ends the message, as `aborted_by_consumer`."""
    walk.subscribe("strict")
    walk.consumer.answer(reply(answer, b"", "webhook-delivery: abort-message"))
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error) == ("failed_permanent", "aborted_by_consumer")
    assert walk.state.enabled


def test_an_attempt_keeps_its_evidence(walk: Walk):
    """Evidence: digest of the body, signature, address, status, duration, first 8 kB of the answer."""
    walk.subscribe("strict")
    walk.consumer.answer(reply("500 Oops", b"x" * 50_000))
    (attempt,) = attempts_of(walk.emit()[0])
    (request,) = walk.consumer.requests
    assert bytes(attempt.body_sha256 or b"") == hashlib.sha256(request.body).digest()
    assert attempt.signature == request.headers["webhook-signature"]
    assert (attempt.target_ip, attempt.http_status) == ("127.0.0.1", 500)
    assert bytes(attempt.reply_body) == b"x" * 8192
    assert attempt.duration_ms < 20_000


def test_the_schedule_ended(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Ends: `exhausted` after every attempt failed; a warning in the log and an event for the others."""
    endpoint = walk.subscribe("strict", {"waits": [5]})
    other = make_endpoint(url=walk.consumer.url, events=["webhook.attempt_exhausted"])
    make_endpoint(url=walk.consumer.url, events=["webhook.attempt_exhausted"], tenant_id="stranger")
    walk.consumer.answer(OOPS, OOPS)
    (delivery,) = walk.emit()
    walk.play(delivery)
    (line,) = endings(caplog.records)
    assert "exhausted after 2 attempts: status_5xx (event is " in line
    (event,) = told("webhook.attempt_exhausted")
    assert heard(event) == {other.pk}
    assert json.loads(bytes(event.body))["data"] == {
        "webhook_id": endpoint.public_id,
        "event_id": delivery.event.public_id,
        "event_type": "order.paid",
        "attempts": 2,
        "error": "status_5xx",
    }


def test_its_time_to_live_ended(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Ends: `expired` once the message's time to live is over, before an attempt or instead of one."""
    endpoint = walk.subscribe("strict", {"time_to_live": 600})
    walk.consumer.answer(OOPS)
    walk.act(lambda: pause(OPERATOR, endpoint))
    (late,) = walk.emit()
    walk.clock.advance(seconds=601)
    walk.act(lambda: resume(OPERATOR, endpoint))
    late.refresh_from_db()
    assert (late.state, late.attempts, walk.requests) == ("expired", 0, 0)
    assert len(endings(caplog.records)) == 1
    (soon,) = walk.emit(expires_at=now() + timedelta(seconds=3))
    assert (soon.state, soon.last_error, walk.requests) == ("expired", "status_5xx", 1)


def test_waiting_used_up_its_window(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Ends: `window_exceeded` when a limit or a backlog left no time for the attempts."""
    endpoint = walk.subscribe("strict")
    walk.act(lambda: pause(OPERATOR, endpoint))
    (late,) = walk.emit()
    walk.clock.advance(days=4, seconds=1)
    walk.act(lambda: resume(OPERATOR, endpoint))
    late.refresh_from_db()
    assert (late.state, late.attempts, walk.requests) == ("window_exceeded", 0, 0)
    (line,) = endings(caplog.records)
    assert "after 0 attempts: none (event is 345" in line


def test_its_last_error_stays_known(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Ends: what waited too long after a failure says so with the failure's code."""
    endpoint = walk.subscribe("strict")
    walk.consumer.answer(OOPS)
    (late,) = walk.emit()
    walk.act(lambda: pause(OPERATOR, endpoint))
    walk.clock.advance(days=4)
    walk.act(lambda: resume(OPERATOR, endpoint))
    late.refresh_from_db()
    assert (late.state, late.last_error) == ("window_exceeded", "status_5xx")
    (line,) = endings(caplog.records)
    assert "ended as window_exceeded after 1 attempts: status_5xx" in line


def test_no_attempt_could_be_made(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Ends: `dead_lettered` where the endpoint was removed or switched off."""
    endpoint = walk.subscribe("strict")
    walk.act(lambda: pause(OPERATOR, endpoint))
    (switched_off,) = walk.emit()
    walk.act(lambda: disable(OPERATOR, endpoint))
    removed = walk.subscribe("strict")
    walk.act(lambda: pause(OPERATOR, removed))
    (orphan,) = walk.emit()
    walk.act(lambda: delete_endpoint(OPERATOR, removed))
    walk.wait(seconds=40)
    assert states([switched_off, orphan]) == ["dead_lettered"] * 2
    errors = set(Delivery.objects.values_list("last_error", flat=True))
    assert errors == {"endpoint_disabled", "endpoint_deleted"}
    assert len(endings(caplog.records)) == 2


def test_a_disabled_endpoint_is_left_alone(walk: Walk):
    """Disabled: new events are not attempted and make no delivery; they can be recovered later."""
    endpoint = walk.subscribe("strict")
    walk.act(lambda: disable(OPERATOR, endpoint))
    assert walk.emit(2) == []
    walk.wait(seconds=60)
    assert walk.requests == 0


def test_a_pause_accumulates_and_discards_nothing(walk: Walk):
    """Pause and resume: delivery stops and starts; messages wait meanwhile, unattempted."""
    endpoint = walk.subscribe("strict")
    walk.act(lambda: pause(OPERATOR, endpoint))
    waiting = walk.emit(5)
    walk.wait(hours=30)
    assert (states(waiting), walk.requests) == (["pending"] * 5, 0)
    walk.act(lambda: resume(OPERATOR, endpoint))
    assert states(waiting) == ["delivered"] * 5


def test_a_failing_endpoint_blocks_no_other(walk: Walk):
    """Isolation: one that fails, or whose breaker is open, holds up nobody else."""
    bad = walk.subscribe("strict", events=["order.paid"])
    walk.consumer.always = OOPS
    walk.emit(12)
    assert walk.breaker == "open"
    walk.consumer.always = OK
    good = walk.subscribe("strict")
    assert states(walk.emit(4)) == ["delivered"] * 4
    assert Delivery.objects.filter(endpoint=bad, state="delivered").count() == 0
    assert Delivery.objects.filter(endpoint=good).count() == 4
