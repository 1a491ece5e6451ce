"""The policy `quick`, line by line: a few attempts within seconds, in order, and no more.

Each docstring says in our own words which rule it checks.
"""

import pytest

from tests.conformance.troubles import Trouble
from tests.conformance.walking import (
    ALONE,
    OK,
    OOPS,
    STATUSES,
    Walk,
    attempts_of,
    busy,
    endings,
    offsets,
    planned,
    states,
    told,
)
from tests.net.servers import reply

pytestmark = pytest.mark.once

RETRIED = {408, 429, *range(500, 600)}


def test_the_waits_double_from_one_second(walk: Walk):
    """Schedule: 1 s, doubled each time: 1, 2, 4, 8; five attempts in all; no jitter."""
    walk.subscribe("quick")
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    made = walk.play(delivery)
    assert planned(made) == [1, 2, 4, 8]
    assert offsets(made) == [0, 1, 3, 7, 15]
    assert (delivery.state, made[-1].status) == ("exhausted", "dead")


def test_thirty_seconds_are_the_longest_of_its_kind(walk: Walk):
    """Schedule: more attempts by the endpoint's wish keep doubling up to 30 s, as it spells them out."""
    walk.subscribe("quick", {"waits": [1, 2, 4, 8, 16, 30, 30]})
    walk.consumer.always = OOPS
    assert planned(walk.play(walk.emit()[0])) == [1, 2, 4, 8, 16, 30, 30]


def test_what_each_status_leads_to(walk: Walk):
    """Answers: 2xx delivers; 408, 429 and 5xx are tried again; all else is a refusal, redirects too."""
    walk.subscribe("quick", ALONE, max_in_flight=1000, ordering="none")
    found = {status: state for status, (state, _) in walk.answers(STATUSES).items()}
    assert {status for status, state in found.items() if state == "delivered"} == set(range(200, 300))
    assert {status for status, state in found.items() if state == "pending"} == RETRIED
    assert {status for status, state in found.items() if state == "failed_permanent"} == (
        set(range(300, 500)) - {408, 410, 429}
    )


def test_410_is_a_refusal_and_no_more(walk: Walk):
    """Answers: a 410 disables nobody."""
    walk.subscribe("quick")
    walk.consumer.answer(reply("410 Gone", b""))
    assert (walk.emit()[0].state, walk.state.enabled) == ("failed_permanent", True)


@pytest.mark.parametrize("kind", ["connect", "dns", "tls", "timeout", "reset", "invalid_response"])
def test_no_answer_is_tried_again(walk: Walk, product, monkeypatch: pytest.MonkeyPatch, kind: str):
    """Answers: no answer, of whatever kind, is tried again."""
    endpoint = walk.subscribe("quick")
    getattr(Trouble(endpoint, walk.consumer, product, monkeypatch), kind)()
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error, delivery.step) == ("pending", kind, 1)


def test_a_refused_address_is_a_refusal(walk: Walk, product):
    """Answers: an address that is refused is not tried again."""
    walk.subscribe("quick")
    product(ALLOW_NETWORKS=[])
    assert walk.emit()[0].state == "failed_permanent"


@pytest.mark.parametrize("status", [429, 503, 500, 408])
def test_at_least_what_a_retry_after_asks(walk: Walk, status: int):
    """Retry-After: the wait is at least what it asks for; it costs its attempt."""
    walk.subscribe("quick")
    walk.consumer.answer(busy(status, "0"), busy(status, "9"), busy(status, "3"), busy(status, "100000"))
    made = walk.play(walk.emit()[0])
    assert planned(made) == [1, 9, 4, 86_400]


def test_a_refusal_cannot_ask_for_another_try(walk: Walk):
    """Retry-After: on an answer that is final it says nothing."""
    walk.subscribe("quick")
    walk.consumer.answer(busy(404, "5"))
    assert walk.emit()[0].state == "failed_permanent"


@pytest.mark.parametrize("asked", ["abort-message", "disable"])
def test_the_consumer_has_no_say(walk: Walk, asked: str):
    """Control header: it does not act here."""
    walk.subscribe("quick")
    walk.consumer.answer(reply("500 Oops", b"", f"webhook-delivery: {asked}"))
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error, walk.state.enabled) == ("pending", "status_5xx", True)


def test_one_at_a_time_keeps_the_order(walk: Walk):
    """Order: one request at once; a failing event keeps those behind it waiting, and they use nothing."""
    endpoint = walk.subscribe("quick")
    assert (endpoint.max_in_flight, endpoint.ordering) == (1, "fifo")
    walk.consumer.answer(OK, OOPS, OOPS)
    first, second, third = walk.emit(3)
    assert states([first, second, third]) == ["delivered", "pending", "pending"]
    walk.play(second)
    third.refresh_from_db()
    assert [len(attempts_of(each)) for each in (first, second, third)] == [1, 3, 1]
    sent = [request.headers["webhook-id"] for request in walk.consumer.requests]
    ids = [each.event.public_id for each in (first, second, third)]
    assert sent == [ids[0], ids[1], ids[1], ids[1], ids[2]]


def test_an_event_given_up_on_holds_no_other_for_ever(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Giving up: after its last attempt an event is dead, with a warning, and the next one goes."""
    walk.subscribe("quick")
    walk.consumer.answer(*[OOPS] * 5)
    first, second = walk.emit(2)
    walk.play(first)
    second.refresh_from_db()
    assert (first.state, second.state, second.attempts) == ("exhausted", "delivered", 1)
    (line,) = endings(caplog.records)
    assert "ended as exhausted after 5 attempts: status_5xx" in line


def test_a_refusal_lets_the_next_one_go_at_once(walk: Walk):
    """Giving up: so does a refusal."""
    walk.subscribe("quick")
    walk.consumer.answer(reply("400 No", b""))
    assert states(walk.emit(2)) == ["failed_permanent", "delivered"]


def test_requests_count_their_attempts_from_one(walk: Walk):
    """Requests: each says which attempt it is, from 1, and for which endpoint."""
    endpoint = walk.subscribe("quick")
    walk.consumer.answer(OOPS, OOPS)
    walk.play(walk.emit()[0])
    heads = [request.headers for request in walk.consumer.requests]
    assert [head["webhook-attempt"] for head in heads] == ["1", "2", "3"]
    assert {head["webhook-endpoint-id"] for head in heads} == {endpoint.public_id}


def test_it_counts_what_it_did(walk: Walk):
    """Status: delivered, retried, failed and dead-lettered are counted, and the last error is known."""
    walk.subscribe("quick")
    walk.consumer.answer(OK, OK, OOPS, reply("404 Nothing", b""))
    walk.emit(2)
    walk.play(walk.emit()[0])
    state = walk.state
    counts = (state.delivered, state.retried, state.failed, state.dead_lettered)
    assert (counts, state.last_error) == ((2, 1, 1, 1), "status_4xx")


def test_neither_breaker_nor_disabling(walk: Walk):
    """Health: whatever it answers, deliveries go on; nobody holds or disables it."""
    walk.subscribe("quick", ordering="none")
    walk.consumer.always = reply("404 Nothing", b"")
    for _ in range(3):
        walk.emit(60)
        walk.wait(hours=30)
    assert (walk.requests, walk.breaker, walk.state.enabled) == (180, "closed", True)
    assert told("webhook.disabled") == told("webhook.warning") == []
