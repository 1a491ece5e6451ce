"""Who gets how much of a lease: endpoints in turn, priorities by share, no more than there are senders."""

from collections import Counter
from datetime import timedelta

import pytest

from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.gates import BATCH, BATCH_IN_ALL, share, take_turns

from .conftest import Clock
from .driving import claim, claimed, send, waiting
from .factories import EndpointFactory, emit_for
from .receiver import Receiver, reply

pytestmark = pytest.mark.django_db


def open_endpoint(**values: object) -> Endpoint:
    return EndpointFactory(state__window=100, **values)


def by_priority(endpoint: Endpoint, *counts: int) -> None:
    rows = waiting(endpoint, sum(counts))
    start = 0
    for priority, count in enumerate(counts):
        keys = [row.pk for row in rows[start : start + count]]
        Delivery.objects.filter(pk__in=keys).update(priority=priority)
        start += count


@pytest.mark.parametrize(
    ("due", "expected"),
    [
        ((60, 60, 60), [35, 10, 5]),
        ((60, 0, 0), [50, 0, 0]),
        ((0, 60, 0), [0, 50, 0]),
        ((0, 0, 60), [0, 0, 50]),
        ((60, 60, 0), [39, 11, 0]),
        ((60, 0, 60), [44, 0, 6]),
        ((0, 60, 60), [0, 33, 17]),
        ((60, 2, 1), [47, 2, 1]),
        ((5, 60, 60), [5, 40, 5]),
    ],
)
def test_priorities_have_shares_and_unused_ones_pass_on(due: tuple[int, ...], expected: list[int]):
    """Live may take 70 %, retries are sure of 20 %, bulk of 10 %."""
    endpoint = open_endpoint(max_in_flight=50)
    by_priority(endpoint, *due)
    taken = Delivery.objects.filter(pk__in=[job.id for job in claim(endpoint).jobs])
    counts = [taken.filter(priority=priority).count() for priority in (0, 1, 2)]
    assert sum(counts) == 50
    assert all(abs(count - want) <= 1 for count, want in zip(counts, expected, strict=True))


def test_a_failed_delivery_becomes_a_retry_and_stays_one(receiver: Receiver, clock: Clock):
    endpoint = open_endpoint()
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    send(claim(endpoint))()
    assert Delivery.objects.get().priority == 1
    Delivery.objects.update(priority=2, due_at=Delivery.objects.get().created_at)
    send(claim(endpoint))()
    assert Delivery.objects.get().priority == 2


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10])
def test_even_a_tiny_grant_leaves_nobody_out_for_ever(size: int):
    many = [["live"] * 20, ["retry"] * 20, ["bulk"] * 20]
    picked = Counter(name for turn in range(1000) for name in share(size, many, turn / 1000))
    assert picked == {"live": 700 * size, "retry": 200 * size, "bulk": 100 * size}


@pytest.mark.parametrize("turn", [0.0, 0.35, 0.999])
def test_a_grant_is_always_used_up(turn: float):
    for counts in [(9, 0, 0), (0, 9, 1), (1, 1, 9), (3, 3, 3)]:
        queues = [[place] * count for place, count in enumerate(counts)]
        for size in range(1, 9):
            picked = share(size, queues, turn)
            assert len(picked) == size
            assert all(picked.count(place) <= count for place, count in enumerate(counts))


def test_turns():
    assert take_turns([[1, 1, 1], [2], [3, 3]], 4) == [1, 2, 3, 1]
    assert take_turns([], 4) == []


def test_every_endpoint_gets_its_turn_beside_a_busy_one():
    busy, *quiet = [open_endpoint() for _ in range(5)]
    waiting(busy, 250)
    for endpoint in quiet:
        waiting(endpoint, 2)
    counts = claimed(claim(busy, *quiet))
    assert [counts[endpoint.pk] for endpoint in quiet] == [2, 2, 2, 2]
    assert counts[busy.pk] >= 20


def test_two_busy_endpoints_share_evenly():
    one, two = open_endpoint(), open_endpoint()
    for endpoint in (one, two):
        waiting(endpoint, 150)
    held = claim(one, two)
    fair = min(BATCH, BATCH_IN_ALL // 2)
    assert claimed(held) == {one.pk: fair, two.pk: fair}
    assert held.more == {one.pk, two.pk}


def test_a_lease_has_a_size():
    endpoints = [open_endpoint() for _ in range(4)]
    for endpoint in endpoints:
        waiting(endpoint, 70)
    held = claim(*endpoints)
    counts = claimed(held)
    assert sum(counts.values()) <= BATCH_IN_ALL
    assert min(counts.values()) >= 0.9 * min(BATCH, BATCH_IN_ALL // 4)
    assert held.more == {endpoint.pk for endpoint in endpoints}
    assert not held.later


def test_no_more_is_claimed_than_there_are_senders():
    one, two = open_endpoint(), open_endpoint()
    for endpoint in (one, two):
        waiting(endpoint, 20)
    held = claim(one, two, senders=7)
    assert sorted(claimed(held).values()) == [3, 4]
    assert held.more == {one.pk, two.pk}


def test_cautious_endpoints_leave_half_of_the_senders_to_others():
    slow, quick = EndpointFactory(state__window=4), open_endpoint()
    for endpoint in (slow, quick):
        waiting(endpoint, 20)
    held = claim(slow, quick, senders=10, cautious=2)
    assert claimed(held) == {slow.pk: 2, quick.pk: 8}


@pytest.mark.parametrize(("latency_ms", "cautious"), [(None, True), (5, False), (1_001, True)])
@pytest.mark.parametrize("cap", [1, 4])
def test_a_small_cap_does_not_make_an_endpoint_known(cap: int, latency_ms: int | None, cautious: bool):
    """Hundreds of strictly ordered endpoints that hang would have all senders."""
    endpoint = EndpointFactory(max_in_flight=cap, state__latency_ms=latency_ms)
    waiting(endpoint, 6)
    assert bool(claim(endpoint, senders=10, cautious=0).jobs) is not cautious


def test_without_a_sender_nothing_is_claimed_and_the_wake_is_not_lost():
    endpoint = open_endpoint()
    waiting(endpoint)
    held = claim(endpoint, senders=0)
    assert (held.jobs, held.later, held.more) == ((), {endpoint.pk: 1.0}, frozenset())


def test_a_crowded_endpoint_is_woken_in_a_moment_once(clock: Clock):
    """No immediate wake: it would find no sender either, and so on, as fast as the broker can."""
    slow, quick = EndpointFactory(state__window=4), open_endpoint()
    for endpoint in (slow, quick):
        waiting(endpoint, 3)
    held = claim(slow, quick, senders=10, cautious=0)
    assert claimed(held) == {quick.pk: 3}
    assert (held.later, held.more) == ({slow.pk: 1.0}, frozenset())
    woken = EndpointState.objects.get(pk=slow.pk).woken_until
    assert woken - held.claimed_at == timedelta(seconds=1)
    assert not claim(slow, senders=10, cautious=0).later
    clock.advance(seconds=2)
    assert claim(slow, senders=10, cautious=0).later == {slow.pk: 1.0}
    assert claimed(claim(slow)) == {slow.pk: 3}
    assert EndpointState.objects.get(pk=slow.pk).woken_until is None


def test_one_at_a_time_goes_in_order_and_waiting_costs_no_attempt(receiver: Receiver):
    """B042"""
    endpoint = EndpointFactory(max_in_flight=1)
    refs = emit_for(endpoint, 10)
    inline.fan_out()
    inline.deliver([endpoint.pk])
    assert receiver.ids() == [ref.id for ref in refs]
    assert set(Delivery.objects.values_list("attempts", "state")) == {(1, "delivered")}


def test_hundreds_of_endpoints_are_delivered_in_one_go(receiver: Receiver):
    endpoints = EndpointFactory.create_batch(230, tenant_id="acme")
    emit_for("acme")
    inline.fan_out()
    inline.deliver([endpoint.pk for endpoint in endpoints])
    assert len(receiver.requests) == 230
