"""The breaker in the path: what is let through, whose outcome counts, and what a crash leaves behind."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.actions import enable as enabling
from webhooks_app.actions.actor import operator
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.models import (
    Attempt,
    Delivery,
    EndpointSecret,
    EndpointState,
    OutboxEntry,
    Partner,
    Tenant,
)
from webhooks_app.pipeline import inline
from webhooks_app.signals import breaker_changed

from .breakers import (
    OPEN_SECONDS,
    PROBES,
    breaker_of,
    changes,
    health_of,
    looked,
    opened,
    set_state,
    state_of,
    triggers,
    untouched,
)
from .conftest import Clock
from .driving import attempt, attempts_of, check_books, claim, run_path, send, waiting
from .factories import EndpointFactory, PartnerFactory, TenantFactory
from .receiver import OK, TIMEOUT, Receiver, headers_of, reply

pytestmark = pytest.mark.django_db

FAILED = reply(500)
SYSTEM = operator("system", "test")
EVERY = pytest.mark.parametrize("policy", list(PROBES))


@EVERY
def test_only_the_probes_leave(policy: str, receiver: Receiver):
    """B032: the oldest ones; the others stay as they are."""
    endpoint = opened(policy)
    rows = waiting(endpoint, 50)
    held = claim(endpoint)
    assert [job.id for job in held.jobs] == [row.pk for row in rows[: PROBES[policy]]]
    assert {job.trigger for job in held.jobs} == {"probe"}
    assert not claim(endpoint).jobs
    send(held)()
    assert untouched(endpoint) == 50 - PROBES[policy] == 50 - len(receiver.requests)


@EVERY
def test_the_oldest_of_all_priorities_is_the_probe(policy: str, receiver: Receiver):
    """Shares are for live traffic: here the one that waits longest goes, whatever it is."""
    for oldest in (0, 1, 2):
        endpoint = opened(policy)
        rows = waiting(endpoint, 9)
        for place, row in enumerate(rows):
            priority = oldest if place < 3 else (oldest + place) % 3
            Delivery.objects.filter(pk=row.pk).update(priority=priority)
        held = claim(endpoint)
        assert {job.id for job in held.jobs} == {row.pk for row in rows[: PROBES[policy]]}


@EVERY
def test_a_probe_keeps_to_max_in_flight(policy: str, clock: Clock):
    """What left before it opened may still be under way."""
    endpoint = EndpointFactory(policy=policy, max_in_flight=1)
    waiting(endpoint, 3)
    first = claim(endpoint)
    assert len(first.jobs) == 1
    set_state(endpoint, breaker="open", probe_at=timezone.now())
    assert not claim(endpoint).jobs
    clock.advance(seconds=36)
    assert len(claim(endpoint).jobs) == 1


@EVERY
def test_a_window_that_shrank_lets_a_probe_through(policy: str):
    endpoint = opened(policy, state__window=1)
    waiting(endpoint, 5)
    assert len(claim(endpoint).jobs) == 1


@EVERY
def test_a_probe_whose_worker_dies_lapses(policy: str, receiver: Receiver, clock: Clock):
    """Nobody reports: after the lease another one is sent, and its outcome counts."""
    endpoint = opened(policy)
    waiting(endpoint, 5)
    for _ in range(2):
        held = claim(endpoint)
        assert held.jobs
        assert not claim(endpoint).jobs
        clock.advance(seconds=61)
    run_path()
    assert breaker_of(endpoint) in {"closed", "open"}
    clock.advance(seconds=61)
    run_path()
    run_path()
    assert breaker_of(endpoint) == "closed"
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    check_books()


@EVERY
def test_a_lapsed_probe_reports_to_nobody(policy: str, receiver: Receiver, clock: Clock):
    """Its late outcome neither moves the breaker nor ends the round that followed."""
    for answer in (OK, FAILED, reply(429, retry_after="99"), None):
        endpoint = opened(policy)
        receiver.always(endpoint, answer or OK)
        waiting(endpoint, 5)
        late = send(claim(endpoint), stopping=answer is None)
        clock.advance(seconds=61)
        assert claim(endpoint).jobs
        before = health_of(endpoint)
        late()
        assert health_of(endpoint) == before
        assert not claim(endpoint).jobs


@EVERY
def test_probes_that_were_given_back_let_the_next_ones_go(policy: str, receiver: Receiver, clock: Clock):
    """A worker that stops sends none of them; nobody waits for it."""
    endpoint = opened(policy)
    waiting(endpoint, 5)
    send(claim(endpoint), stopping=True)()
    assert untouched(endpoint) == 5
    clock.advance(seconds=61)
    assert len(claim(endpoint).jobs) == PROBES[policy]


@pytest.mark.parametrize("answer", [OK, FAILED, TIMEOUT, reply(410), reply(429, retry_after="900")])
@EVERY
def test_what_left_before_it_opened_moves_nothing(policy: str, answer: Any, receiver: Receiver):
    endpoint = EndpointFactory(policy=policy, state__window=100)
    waiting(endpoint, 40)
    receiver.script(endpoint, *[FAILED] * 30, answer)
    early = claim(endpoint)
    send(replace(early, units=early.units[:30]))()
    assert breaker_of(endpoint) == "open"
    before = health_of(endpoint)
    send(replace(early, units=early.units[30:31]))()
    assert health_of(endpoint) == before
    assert Attempt.objects.count() == 31


def test_every_change_begins_a_new_life(receiver: Receiver, clock: Clock):
    """A generation for each of opened, half-opened by probes, closed."""
    endpoint = EndpointFactory(policy="exponential", state__window=100)
    waiting(endpoint, 30)
    receiver.script(endpoint, *[FAILED] * 30)
    seen = []
    attempt(endpoint)
    Delivery.objects.update(due_at=timezone.now() + timedelta(days=1))
    for _ in range(2):
        seen.append((breaker_of(endpoint), state_of(endpoint).generation, state_of(endpoint).window))
        clock.advance(seconds=61)
        attempt(endpoint)
    seen.append((breaker_of(endpoint), state_of(endpoint).generation, state_of(endpoint).window))
    waiting(endpoint)
    attempt(endpoint)
    seen.append((breaker_of(endpoint), state_of(endpoint).generation, state_of(endpoint).window))
    assert seen == [("open", 2, 4), ("open", 2, 8), ("half_open", 3, 4), ("closed", 4, 4)]
    assert changes(endpoint) == ["opened", "half_opened", "closed"]


def test_what_one_record_holds_counts_up_to_the_change(receiver: Receiver):
    """Twenty failures together open it with the tenth; those behind it belong to the life before."""
    endpoint = EndpointFactory(policy="strict", state__window=100)
    waiting(endpoint, 20)
    receiver.script(endpoint, *[FAILED] * 15, *[OK] * 5)
    attempt(endpoint)
    state = state_of(endpoint)
    assert (state.breaker, state.consecutive_failures, state.generation) == ("open", 10, 2)
    assert Delivery.objects.filter(state="delivered").count() == 5


def paused() -> None:
    EndpointState.objects.update(paused_at=timezone.now())


def silenced() -> None:
    EndpointState.objects.update(hold_until=timezone.now() + timedelta(hours=2))


def suspended() -> None:
    Tenant.objects.update(suspended_at=timezone.now())


def partner_suspended() -> None:
    Partner.objects.update(suspended_at=timezone.now())


@pytest.mark.parametrize("close", [paused, silenced, suspended, partner_suspended])
@pytest.mark.parametrize("count", [0, 3])
@EVERY
def test_another_closed_gate_lets_no_probe_through(
    policy: str, count: int, close: Callable[[], None], receiver: Receiver, clock: Clock
):
    """The receiver is asked for nothing, not even with a ping; afterwards it is probed as ever."""
    endpoint = opened(policy, tenant_id=TenantFactory(partner=PartnerFactory()).pk)
    waiting(endpoint, count)
    close()
    for _ in range(3):
        clock.advance(seconds=61)
        assert looked() == []
        assert not claim(endpoint).jobs
    assert (breaker_of(endpoint), receiver.requests) == ("open", [])
    EndpointState.objects.update(paused_at=None, hold_until=None)
    Tenant.objects.update(suspended_at=None)
    Partner.objects.update(suspended_at=None)
    assert looked() == [endpoint.pk]
    run_path()
    assert {job.trigger for job in claim(endpoint).jobs} <= {"schedule", "probe"}
    assert triggers(endpoint)[0] == "probe"


def test_a_probe_that_is_asked_for_silence_keeps_it(receiver: Receiver, clock: Clock):
    endpoint = opened()
    waiting(endpoint)
    receiver.script(endpoint, reply(503, retry_after="300"))
    run_path()
    clock.advance(seconds=290)
    assert looked() == []
    clock.advance(seconds=11)
    assert looked() == [endpoint.pk]


@EVERY
def test_the_probe_of_a_lane_is_its_head(policy: str, receiver: Receiver):
    endpoint = opened(policy, ordering="fifo", max_in_flight=1)
    rows = waiting(endpoint, 5)
    receiver.script(endpoint, FAILED)
    held = claim(endpoint)
    assert [job.id for job in held.jobs] == [rows[0].pk]
    send(held)()
    rows[0].refresh_from_db()
    assert (rows[0].step, rows[0].state, untouched(endpoint)) == (0, "pending", 4)


@EVERY
def test_probes_of_several_lanes_are_their_heads(policy: str, receiver: Receiver):
    endpoint = opened(policy, ordering="subject")
    rows = [row for owner in "abcde" for row in waiting(endpoint, 3, owner=("order", owner))]
    heads = rows[::3]
    held = claim(endpoint)
    found = [job.id for job in held.jobs]
    assert found
    assert found == [row.pk for row in heads[: len(found)]]
    assert len(found) <= PROBES[policy]
    assert all(len(unit) == 1 for unit in held.units)
    for _ in range(20):
        send(held)()
        set_state(endpoint, probe_at=None)
        held = claim(endpoint)
    assert len(receiver.requests) >= 15
    sent = [headers_of(request)["webhook-id"] for request in receiver.requests]
    for place in range(0, 15, 3):
        mine = [row.event.public_id for row in rows[place : place + 3]]
        assert [event_id for event_id in sent if event_id in mine] == mine


@EVERY
def test_a_lane_that_waits_for_its_head_is_not_overtaken(policy: str, receiver: Receiver):
    """Its head is not due: a ping asks, and nothing behind it leaves."""
    endpoint = opened(policy, ordering="fifo", max_in_flight=1)
    head, *_ = waiting(endpoint, 3)
    Delivery.objects.filter(pk=head.pk).update(due_at=timezone.now() + timedelta(hours=1))
    held = claim(endpoint)
    assert [job.is_ping for job in held.jobs] == [True]
    send(held)()
    assert untouched(endpoint) == 3


@EVERY
def test_after_it_closed_a_lane_goes_on_in_order(policy: str, receiver: Receiver, clock: Clock):
    endpoint = opened(policy, ordering="fifo", max_in_flight=1)
    rows = waiting(endpoint, 6)
    for _ in range(3):
        run_path()
        clock.advance(seconds=61)
    assert breaker_of(endpoint) == "closed"
    assert receiver.ids() == [row.event.public_id for row in rows]


@pytest.mark.parametrize("answer", [OK, FAILED])
@EVERY
def test_a_probe_at_an_endpoint_that_is_disabled_meanwhile(policy: str, answer: Any, receiver: Receiver):
    """And enabled again: its outcome says nothing about the life after."""
    for count in (0, 2):
        endpoint = opened(policy)
        receiver.always(endpoint, answer)
        waiting(endpoint, count)
        late = send(claim(endpoint))
        disable(SYSTEM, endpoint)
        enabling.enable(SYSTEM, endpoint)
        before = health_of(endpoint)
        late()
        assert health_of(endpoint) == before
        assert before["breaker"] == "closed"


def test_deleted_and_disabled_endpoints_are_not_probed(receiver: Receiver, clock: Clock):
    """Nobody looks at them again and again, either."""
    for end in (delete_endpoint, disable):
        endpoint = opened()
        end(SYSTEM, endpoint)
        for _ in range(3):
            clock.advance(seconds=61)
            assert looked() == []
        inline.deliver([endpoint.pk])
    assert receiver.requests == []


@EVERY
def test_the_tick_finds_the_probe_that_is_due_and_no_earlier(policy: str, clock: Clock):
    endpoint = opened(policy, due=False)
    waiting(endpoint, 2)
    clock.advance(seconds=OPEN_SECONDS[policy] - 1)
    assert looked() == []
    clock.advance(seconds=1.5)
    assert looked() == [endpoint.pk]
    assert looked() == [], "it was woken just now"


def test_a_policy_without_a_breaker_is_not_probed_and_holds_nothing(receiver: Receiver, clock: Clock):
    """The operator's policy may change under an open breaker."""
    endpoint = opened()
    type(endpoint).objects.update(policy="standard")
    assert not claim(endpoint).jobs
    waiting(endpoint, 3)
    run_path()
    assert [headers_of(request)["webhook-attempt"] for request in receiver.requests] == ["1"] * 3
    assert set(triggers(endpoint)) == {"schedule"}
    assert breaker_of(endpoint) == "closed"


def test_a_killer_of_workers_is_no_probe_for_ever(receiver: Receiver, clock: Clock):
    endpoint = opened()
    (delivery,) = waiting(endpoint)
    Delivery.objects.update(lapses=2)
    claim(endpoint)
    clock.advance(seconds=61)
    held = claim(endpoint)
    assert [job.id for job in held.lost] == [delivery.pk]
    send(held)()
    (row,) = attempts_of(delivery)
    assert (row.error, row.status, row.trigger) == ("worker_lost", "failed", "schedule")
    delivery.refresh_from_db()
    assert (delivery.step, delivery.lapses) == (1, 0)
    assert breaker_of(endpoint) != "closed"


@pytest.mark.parametrize("what", ["event", "secret"])
@EVERY
def test_a_probe_that_says_nothing_of_the_receiver_is_not_repeated_at_once(
    policy: str, what: str, receiver: Receiver, clock: Clock
):
    """A fault of ours moves nothing: the next round waits its time, and what is gone ends."""
    endpoint = opened(policy)
    waiting(endpoint, 5)
    if what == "event":
        OutboxEntry.objects.all().delete()
    else:
        EndpointSecret.objects.update(sealed="whs1.0000000000000000.AAAAAAAAAAAAAAAA.AAAA")
    for _ in range(5):
        run_path()
    assert Attempt.objects.count() == PROBES[policy]
    assert breaker_of(endpoint) != "closed"
    assert state_of(endpoint).consecutive_failures == 30
    states = sorted(set(Delivery.objects.values_list("state", flat=True)))
    assert states == (["dead_lettered", "pending"] if what == "event" else ["pending"])
    clock.advance(seconds=61)
    run_path()
    assert Attempt.objects.count() > PROBES[policy]
    check_books()


def test_a_failing_listener_stops_nothing(receiver: Receiver, clock: Clock):
    """B028: telling somebody may fail; the change has happened."""

    def fail(**_: Any) -> None:
        raise RuntimeError("the host's own fault")

    breaker_changed.connect(fail)
    try:
        endpoint = opened()
        waiting(endpoint, 3)
        run_path()
        assert breaker_of(endpoint) == "closed"
        assert Delivery.objects.filter(state="delivered").count() == 3
    finally:
        breaker_changed.disconnect(fail)
