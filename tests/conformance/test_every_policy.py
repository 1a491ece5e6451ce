"""What holds under every policy, or differs by a figure only: limits, Retry-After, the consumer's say, ends.

Each docstring says in our own words which rule it checks.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.actions.builders import OPERATOR
from tests.conformance.consumer import Consumer
from tests.conformance.driving import now
from tests.conformance.walking import OK, OOPS, Walk, attempts_of, busy, endings, planned, states, told
from tests.net.servers import Server, answers, black_holes, drips, hangs, pours, reply
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.actions.test_send import test_send as send_test
from webhooks_app.core.policies import PRESETS
from webhooks_app.destinations import https
from webhooks_app.models import EndpointState

pytestmark = [pytest.mark.parametrize("policy", PRESETS), pytest.mark.once]

VECTORS = Path(__file__).parents[1] / "vectors" / "signature_vectors.json"
KNOWN = [each for each in json.loads(VECTORS.read_text("utf-8"))["vectors"] if each["kind"] == "retry-after"]
ODD = [("-1", None), ("1000000000", 10**9), ("soon", None), ("", None), ("120, 240", None), ("+5", None)]
ASKED = [(each["value"], each["expect_seconds"]) for each in KNOWN] + ODD
MOMENT = datetime.fromtimestamp(KNOWN[0]["now"], UTC)
FIRST_WAIT = {"standard": 30, "strict": 5, "exponential": 30, "quick": 1}
DAY = 86_400
LONGEST = {"standard": DAY, "strict": 1.2 * DAY, "exponential": 3 * DAY, "quick": DAY}
LIMITS = {
    "standard": (5, 15, 4096),
    "strict": (5, 20, 8192),
    "exponential": (5, 20, 8192),
    "quick": (5, 10, 4096),
}


def plain(walk: Walk, policy: str, **overrides: Any) -> None:
    """Subscribe an endpoint without jitter, order and breaker."""
    given = {"jitter_kind": "none", "breaker": False, "auto_disable": False, **overrides}
    walk.subscribe(policy, given, ordering="none", max_in_flight=100)


def test_there_are_vectors(policy: str):
    """Retry-After: the known forms are all there, and all of the same moment."""
    assert len(KNOWN) == 15
    assert {each["now"] for each in KNOWN} == {MOMENT.timestamp()}


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_after_in_every_form(walk: Walk, policy: str, status: int):
    """Retry-After: digits and HTTP's three dates count, up to the policy's bound; all else is ignored."""
    plain(walk, policy)
    for value, seconds in ASKED:
        EndpointState.objects.update(hold_until=None)
        walk.clock.ahead += MOMENT - now()
        walk.consumer.answer(busy(status, value))
        (delivery,) = walk.emit()
        expected = max(FIRST_WAIT[policy], min(seconds or 0, LONGEST[policy]))
        if policy == "exponential" and expected >= LONGEST[policy]:
            assert (delivery.state, value) == ("window_exceeded", value)
            continue
        (wait,) = planned(attempts_of(delivery))
        assert wait == pytest.approx(expected, abs=1.5), value
    assert walk.requests == len(ASKED)


def test_two_headers_that_disagree_are_ignored(walk: Walk, policy: str):
    """Retry-After: sent twice with different values nobody knows which is meant; twice the same is once."""
    plain(walk, policy)
    for values, expected in ((("60", "90"), FIRST_WAIT[policy]), (("60", "60"), 60)):
        EndpointState.objects.update(hold_until=None)
        walk.consumer.answer(reply("503 Busy", b"", *(f"Retry-After: {value}" for value in values)))
        assert planned(attempts_of(walk.emit()[0])) == [expected]


def test_it_holds_the_others_as_well(walk: Walk, policy: str):
    """Retry-After: with 429 and 503 the endpoint's other deliveries wait as long, and use no attempt."""
    plain(walk, policy)
    walk.consumer.answer(busy(503, "600"))
    walk.emit()
    held = walk.emit(3)
    walk.wait(seconds=598)
    assert (walk.requests, [each.attempts for each in held]) == (1, [0, 0, 0])
    walk.wait(seconds=3)
    assert walk.requests == 5


@pytest.mark.parametrize("status", [100, 101, 102, 103, 199, 600, 999])
def test_what_is_no_final_status_is_no_answer(walk: Walk, policy: str, status: int):
    """Answers: a 1xx is not final, and what is no status of HTTP no answer: tried again everywhere."""
    plain(walk, policy, total_timeout=0.5, connect_timeout=0.5)
    walk.consumer.answer(reply(f"{status} Odd", b""), close=True)
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.step) == ("pending", 1)
    assert delivery.last_error in {"invalid_response", "reset"}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
def test_no_redirect_is_followed(walk: Walk, product, certificate, policy: str, status: str):
    """Answers: a redirect is a failure, wherever it points to; nobody goes there."""
    canary = Server(answers(OK), context=certificate)
    try:
        product(EXTRA_PORTS=[walk.consumer.server.port, canary.port])
        plain(walk, policy)
        where = walk.consumer.url.replace(str(walk.consumer.server.port), str(canary.port))
        walk.consumer.answer(reply(status, b"", f"Location: {where}"))
        (delivery,) = walk.emit()
        assert (delivery.last_error, walk.requests, canary.connections) == ("redirect", 1, 0)
    finally:
        canary.close()


def test_a_broken_body_after_a_2xx_changes_nothing(walk: Walk, policy: str):
    """Answers: a 2xx within the deadline is success, whatever becomes of its body."""
    plain(walk, policy)
    walk.consumer.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nshort", close=True)
    assert walk.emit()[0].state == "delivered"


def test_the_limits_of_a_request(walk: Walk, policy: str, monkeypatch: pytest.MonkeyPatch):
    """Limits: so long for connecting, so long for all of it, so much of the answer."""
    plain(walk, policy)
    walk.consumer.answer(OK)
    seen = []
    transport = https.transport()
    post = transport.post
    monkeypatch.setattr(transport, "post", lambda request: seen.append(request) or post(request))
    walk.emit()
    (request,) = seen
    assert (request.connect_timeout, request.total_timeout, request.reply_bytes) == LIMITS[policy]


@pytest.mark.parametrize(
    "behaviour",
    [
        hangs,
        drips(b"HTTP/1.1 200 OK\r\n"),
        drips(b"X-Slow: yes\r\n", first=b"HTTP/1.1 200 OK\r\n"),
    ],
    ids=["silence", "status", "headers"],
)
def test_the_whole_time_is_never_stretched(walk: Walk, policy: str, behaviour):
    """Limits: neither silence nor dripping makes a request last longer than its total time."""
    plain(walk, policy, total_timeout=0.4, connect_timeout=0.4)
    walk.consumer.server.behaviour = behaviour
    started = time.monotonic()
    (delivery,) = walk.emit()
    assert time.monotonic() - started < 3
    assert (delivery.last_error, delivery.state) == ("timeout", "pending")


def test_a_connection_that_never_opens(walk: Walk, product, policy: str):
    """Limits: connecting has a limit of its own, long before that of the whole request."""
    plain(walk, policy, total_timeout=30, connect_timeout=0.3)
    with black_holes(["127.0.0.9"]) as port:
        product(STATIC_HOSTS={"*.customer.com": ["127.0.0.9"]}, EXTRA_PORTS=[port])
        url = walk.consumer.url.replace(str(walk.consumer.server.port), str(port))
        type(walk.endpoint).objects.update(url=url)
        started = time.monotonic()
        (delivery,) = walk.emit()
        assert time.monotonic() - started < 5
    (attempt,) = attempts_of(delivery)
    assert (attempt.error, delivery.state) == ("connect", "pending")
    assert attempt.detail.endswith("timeout")


def test_of_an_endless_answer_only_the_beginning_is_read(walk: Walk, consumer: Consumer, policy: str):
    """Limits: so many bytes of the answer are read and kept, whatever else would come."""
    plain(walk, policy)
    consumer.server.behaviour = pours(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", b"x" * 65_536)
    (delivery,) = walk.emit()
    (attempt,) = attempts_of(delivery)
    assert (delivery.state, len(bytes(attempt.reply_body))) == ("delivered", LIMITS[policy][2])
    assert consumer.server.sent < 20_000_000


@pytest.mark.parametrize(
    ("answer", "asked", "state", "reason"),
    [
        ("500 Oops", "abort-message", "failed_permanent", None),
        ("500 Oops", "Disable", "pending", "consumer"),
        ("200 OK", "disable", "delivered", "consumer"),
        ("200 OK", "abort-message", "delivered", None),
        ("500 Oops", "stop", "pending", None),
    ],
)
def test_the_consumer_has_a_say(
    walk: Walk, policy: str, answer: str, asked: str, state: str, reason: str | None
):
    """Control header: abort-message ends a failed message, disable the endpoint; not under `quick`."""
    plain(walk, policy)
    walk.consumer.answer(reply(answer, b"", f"webhook-delivery: {asked}"))
    (delivery,) = walk.emit()
    if policy == "quick":
        state, reason = ("pending" if state == "failed_permanent" else state), None
    assert (delivery.state, walk.state.disabled_reason) == (state, reason)


def test_an_event_that_is_worth_nothing_any_more(walk: Walk, policy: str, caplog: pytest.LogCaptureFixture):
    """Expiry: nothing is sent after an event's own end, however it was held; it is logged once."""
    plain(walk, policy)
    walk.act(lambda: pause(OPERATOR, walk.endpoint))
    (late,) = walk.emit(expires_at=now() + timedelta(seconds=50))
    walk.clock.advance(seconds=51)
    walk.act(lambda: resume(OPERATOR, walk.endpoint))
    late.refresh_from_db()
    assert (late.state, late.last_error, walk.requests) == ("expired", "event_unavailable", 0)
    (line,) = endings(caplog.records)
    assert "ended as expired after 0 attempts" in line


def test_a_retry_that_would_come_too_late_is_not_waited_for(walk: Walk, policy: str):
    """Expiry: when the next attempt would start after the event's end, the delivery ends at once."""
    plain(walk, policy)
    walk.consumer.answer(OOPS, OOPS)
    (too_late,) = walk.emit(expires_at=now() + timedelta(seconds=0.9))
    (in_time,) = walk.emit(expires_at=now() + timedelta(seconds=40))
    assert (too_late.state, too_late.last_error, too_late.attempts) == ("expired", "status_5xx", 1)
    assert in_time.state == "pending"


def test_an_endpoints_own_time_to_live(walk: Walk, policy: str):
    """Expiry: a time to live counts from the recording, for every event of the endpoint."""
    plain(walk, policy, time_to_live=100)
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    walk.play(delivery)
    assert delivery.state == ("exhausted" if policy == "quick" else "expired")
    assert (attempts_of(delivery)[-1].created_at - delivery.created_at).total_seconds() < 100


def test_an_endpoints_own_breaker(walk: Walk, policy: str):
    """Breaker: any policy may be given one; what it holds arrives when the receiver is well again."""
    own = {"failures": 5, "open_seconds": 10, "probe_seconds": 10, "probes": 1, "probes_to_half_open": 0}
    plain(walk, policy, breaker=own, waits=[3600])
    walk.consumer.always = OOPS
    walk.emit(5)
    assert walk.breaker == "open"
    walk.consumer.always = OK
    held = walk.emit(6)
    walk.wait(seconds=8)
    assert walk.requests == 5
    walk.wait(seconds=3)
    assert (walk.breaker, states(held)) == ("closed", ["delivered"] * 6)


def test_an_endpoints_own_disabling(walk: Walk, policy: str):
    """Auto-disable: any policy may be given a rule, with warnings at shares of the way."""
    rule = {"failures": 4, "span": 100, "start_within": None, "start_span": 0, "warnings": [0.5]}
    plain(walk, policy, waits=[], auto_disable=rule)
    walk.consumer.always = OOPS
    seen = []
    for seconds in (0, 49, 2, 48, 2):
        walk.clock.advance(seconds=seconds)
        walk.emit()
        seen.append((len(told("webhook.warning")), walk.state.enabled))
    assert seen == [(0, True), (0, True), (1, True), (1, True), (1, False)]
    assert walk.state.disabled_reason == "failing"


@pytest.mark.parametrize("status", ["200 OK", "500 Oops", "410 Gone"])
def test_a_test_by_hand_moves_nothing(walk: Walk, policy: str, status: str):
    """Tests: one attempt, never retried; state, counters and schedule stay as they are."""
    walk.subscribe(policy)
    before = EndpointState.objects.values().get()
    walk.consumer.answer(reply(status, b"", "Retry-After: 60", "webhook-delivery: disable"))
    attempt = walk.act(lambda: send_test(OPERATOR, walk.endpoint))
    assert (attempt.number, attempt.trigger, attempt.delivery_id) == (1, "test", None)
    walk.wait(hours=1)
    after = EndpointState.objects.values().get()
    assert {**after, "woken_until": None} == {**before, "woken_until": None}
    assert walk.requests == 1
