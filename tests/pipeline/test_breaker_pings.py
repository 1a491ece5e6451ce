"""Pings ask in the place of a delivery: when nothing is due, what a lost one leaves, whom it reports to."""

import json
from typing import Any

import pytest

from webhooks_app.actions.actor import operator
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.models import (
    Attempt,
    Delivery,
    Event,
)
from webhooks_app.pipeline import inline, tick

from .breakers import (
    OPEN_SECONDS,
    PROBES,
    breaker_of,
    health_of,
    looked,
    opened,
)
from .conftest import Clock
from .driving import claim, send
from .receiver import OK, Receiver, headers_of, reply

pytestmark = pytest.mark.django_db

FAILED = reply(500)
SYSTEM = operator("system", "test")
EVERY = pytest.mark.parametrize("policy", list(PROBES))


@EVERY
def test_a_ping_whose_worker_dies_lapses(policy: str, receiver: Receiver, clock: Clock):
    endpoint = opened(policy)
    assert [job.is_ping for job in claim(endpoint).jobs] == [True]
    assert not claim(endpoint).jobs
    assert endpoint.pk not in looked()
    clock.advance(seconds=61)
    assert looked() == [endpoint.pk]
    assert [job.is_ping for job in claim(endpoint).jobs] == [True]


@EVERY
def test_a_lapsed_ping_reports_to_nobody(policy: str, receiver: Receiver, clock: Clock):
    for answer in (OK, FAILED):
        endpoint = opened(policy)
        receiver.always(endpoint, answer)
        late = send(claim(endpoint))
        clock.advance(seconds=61)
        assert claim(endpoint).jobs
        before = health_of(endpoint)
        assert not late().attempts
        assert health_of(endpoint) == before
        assert not Attempt.objects.filter(endpoint=endpoint).exists()


@EVERY
def test_with_nothing_due_a_signed_ping_asks(policy: str, receiver: Receiver):
    endpoint = opened(policy)
    inline.deliver(looked())
    (request,) = receiver.to(endpoint)
    body = json.loads(request.body)
    assert (body["type"], body["sequence"]) == ("webhook.ping", None)
    assert body["id"] == headers_of(request)["webhook-id"]
    assert headers_of(request)["webhook-signature"].startswith("v1,")
    row = Attempt.objects.get()
    assert (row.delivery_id, row.trigger, row.event_type) == (None, "probe", "webhook.ping")
    assert not Delivery.objects.exists()
    assert not Event.objects.filter(type="webhook.ping").exists()
    assert Attempt.objects.count() == len(receiver.requests) == 1


@pytest.mark.parametrize("answer", [OK, FAILED])
@EVERY
def test_a_ping_at_an_endpoint_that_is_deleted_meanwhile(policy: str, answer: Any, receiver: Receiver):
    endpoint = opened(policy)
    receiver.always(endpoint, answer)
    before_sending, after_sending = claim(endpoint), None
    delete_endpoint(SYSTEM, endpoint)
    send(before_sending)()
    assert receiver.requests == []
    endpoint = opened(policy)
    receiver.always(endpoint, answer)
    after_sending = send(claim(endpoint))
    delete_endpoint(SYSTEM, endpoint)
    before = health_of(endpoint)
    after_sending()
    left_out = ("probe_token", "probe_until")
    assert {k: v for k, v in health_of(endpoint).items() if k not in left_out} == {
        k: v for k, v in before.items() if k not in left_out
    }


@EVERY
def test_the_tick_finds_a_ping_that_is_due_once(policy: str, clock: Clock):
    endpoint = opened(policy, due=False)
    clock.advance(seconds=OPEN_SECONDS[policy] - 1)
    assert looked() == []
    clock.advance(seconds=1.5)
    assert looked() == [endpoint.pk]
    assert looked() == [], "it was woken just now"
    clock.advance(seconds=31)
    assert looked() == [endpoint.pk], "the wake was lost"


@pytest.mark.parametrize("room", [{"senders": 0}, {"senders": 100, "cautious": 0}])
def test_a_ping_without_a_sender_waits_a_moment(room: dict[str, int], clock: Clock):
    """To look again at once would be in vain, as fast as the broker can."""
    endpoint = opened()
    held = claim(endpoint, **room)
    assert (held.units, held.more, held.later) == ((), frozenset(), {endpoint.pk: 1.0})


def test_several_successes_are_asked_for_by_pings(receiver: Receiver, clock: Clock):
    """With nothing due the tick finds the next round of a breaker that time has half-opened."""
    rule = {"failures": 5, "open_seconds": 10, "probe_seconds": 10, "successes_to_close": 3}
    endpoint = opened("standard", policy_overrides={"breaker": rule})
    for _ in range(4):
        inline.deliver(tick.look("default").due)
        clock.advance(seconds=31)
    assert (breaker_of(endpoint), len(receiver.requests)) == ("closed", 3)
