"""The tick: finds what lost hints left behind, once, and leaves alone what was just woken."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from webhooks_app.models import Delivery, Endpoint, EndpointState, Event, PipelineLock
from webhooks_app.pipeline import tick

from .conftest import Bell, Clock
from .driving import ALIAS, claim, committed, in_threads, run_path, send, waiting
from .factories import EndpointFactory, emit_for
from .receiver import Receiver, reply

pytestmark = pytest.mark.django_db


def due_in(endpoint: Endpoint, **amount: float) -> None:
    Delivery.objects.filter(endpoint=endpoint).update(due_at=timezone.now() + timedelta(**amount))


def look() -> tuple[bool, list[int], list[int]]:
    """Look once; return whether to fan out, and the endpoints due now and soon."""
    found = tick.look(ALIAS)
    return found.fan_out, sorted(found.due + found.neglected), list(found.soon)


def test_an_idle_system_gives_nothing_to_do():
    EndpointFactory()
    assert look() == (False, [], [])


def test_a_lost_wake_of_the_fan_out_is_found():
    """B019"""
    emit_for("acme")
    assert look() == (True, [], [])
    run_path()
    assert look() == (False, [], [])


def test_an_own_event_that_was_not_fanned_out_is_found():
    now = timezone.now()
    Event.objects.create(
        public_id="evt_x", type="webhook.disabled", environment="live", occurred_at=now, recorded_at=now
    )
    assert look() == (True, [], [])


def test_due_deliveries_are_found_once(clock: Clock):
    """B016, B019"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    assert look() == (False, [endpoint.pk], [])
    assert look() == (False, [], [])
    clock.advance(seconds=29)
    assert look() == (False, [], [])
    clock.advance(seconds=2)
    assert look() == (False, [endpoint.pk], [])


def test_an_endpoint_that_was_leased_since_is_woken_again(receiver: Receiver):
    endpoint = EndpointFactory(state__window=1)
    waiting(endpoint, 3)
    assert look()[1] == [endpoint.pk]
    send(claim(endpoint))()
    assert look()[1] == [endpoint.pk]


def test_a_lapsed_lease_is_found_and_a_live_one_is_not(clock: Clock):
    """B006, B008"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    claim(endpoint)
    assert look() == (False, [], [])
    clock.advance(seconds=31)
    assert look() == (False, [endpoint.pk], [])


@pytest.mark.parametrize(
    "gate", [{"paused_at": timezone.now()}, {"hold_until": timezone.now() + timedelta(days=9)}]
)
def test_closed_gates_are_not_woken(gate: dict[str, Any]):
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    EndpointState.objects.update(**gate)
    assert look() == (False, [], [])


def test_a_hold_that_is_over_is_woken(clock: Clock):
    endpoint = EndpointFactory(state__hold_until=timezone.now() + timedelta(minutes=1))
    waiting(endpoint)
    assert not look()[1]
    clock.advance(seconds=61)
    assert look()[1] == [endpoint.pk]


def test_disabled_and_deleted_endpoints_are_woken_to_end_what_is_due():
    """B013"""
    disabled = EndpointFactory()
    deleted = EndpointFactory()
    for endpoint in (disabled, deleted):
        waiting(endpoint)
    EndpointState.objects.filter(pk=disabled.pk).update(enabled=False, paused_at=timezone.now())
    Endpoint.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    assert sorted(look()[1]) == [disabled.pk, deleted.pk]
    claim(disabled, deleted)
    assert Delivery.objects.filter(state="dead_lettered").count() == 2
    assert look() == (False, [], [])


def test_what_comes_due_in_a_moment_gets_one_countdown(clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    due_in(endpoint, seconds=4)
    first = Delivery.objects.order_by("pk").first()
    Delivery.objects.filter(pk=first.pk).update(due_at=timezone.now() + timedelta(seconds=2))
    found = tick.look(ALIAS)
    assert found.due == []
    assert found.soon[endpoint.pk] == pytest.approx(2, abs=0.5)
    assert look() == (False, [], [])


def test_what_comes_due_later_is_left_for_a_later_tick(clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint)
    due_in(endpoint, seconds=20)
    assert look() == (False, [], [])
    clock.advance(seconds=16)
    assert look() == (False, [], [endpoint.pk])


def test_a_quick_retry_gets_one_countdown_from_the_record(receiver: Receiver, bell: Bell, clock: Clock):
    endpoint = EndpointFactory(policy_overrides={"waits": [2, 2], "jitter": 0}, state__window=100)
    waiting(endpoint, 2)
    receiver.always(endpoint, reply(500))
    held = claim(endpoint)
    bell.take()
    send(held)()
    assert bell.take().later[endpoint.pk] == pytest.approx(2, abs=0.1)
    waiting(endpoint)
    held = claim(endpoint)
    bell.take()
    EndpointState.objects.update(woken_until=timezone.now() + timedelta(seconds=1))
    send(held)()
    assert not bell.take().later


@pytest.mark.parametrize(("wait", "expected"), [(3, [3.0]), (30, [])])
def test_a_gate_that_shuts_for_seconds_gets_its_countdown_from_the_record(
    wait: int, expected: list[float], receiver: Receiver, bell: Bell
):
    """A breaker's next probe waits for no tick, and no retry's countdown comes in vain before it."""
    breaker = {"failures": 1, "open_seconds": wait}
    endpoint = EndpointFactory(policy_overrides={"waits": [1, 1], "jitter": 0, "breaker": breaker})
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    held = claim(endpoint)
    bell.take()
    send(held)()
    assert list(bell.take().later.values()) == pytest.approx(expected, abs=0.1)


def test_a_long_retry_is_left_to_the_tick(receiver: Receiver, bell: Bell):
    """B001, B003: no message waits for longer than a few seconds."""
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.always(endpoint, reply(500))
    held = claim(endpoint)
    bell.take()
    send(held)()
    assert not bell.take()


def test_it_says_when_it_was_here():
    tick.look(ALIAS)
    seen = PipelineLock.objects.get(name="tick").value
    assert abs(seen - timezone.now().timestamp()) < 60


def test_it_finds_a_bounded_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tick, "MOST", 3)
    for endpoint in EndpointFactory.create_batch(5):
        waiting(endpoint)
    first, second = look()[1], look()[1]
    assert (len(first), len(second)) == (3, 2)
    assert not set(first) & set(second)


@committed
@pytest.mark.pg
def test_one_at_a_time():
    tick.look(ALIAS)
    waiting(EndpointFactory())
    with transaction.atomic():
        mine = tick.look(ALIAS)
        (rival,) = in_threads(lambda: tick.look(ALIAS), seconds=5)
    assert len(mine.due) == 1
    assert not rival.due


@committed
@pytest.mark.pg
def test_an_endpoint_that_somebody_works_on_is_left_alone():
    tick.look(ALIAS)
    busy, free = EndpointFactory(), EndpointFactory()
    for endpoint in (busy, free):
        waiting(endpoint)
    with transaction.atomic():
        EndpointState.objects.select_for_update().get(pk=busy.pk)
        (found,) = in_threads(lambda: tick.look(ALIAS), seconds=5)
    assert found.due == [free.pk]
    assert look()[1] == [busy.pk]
