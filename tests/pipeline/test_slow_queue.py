"""A queue of their own for slow endpoints: who is sent there, who serves them, and what if nobody does."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.celeryapp import app
from webhooks_app import tasks
from webhooks_app.models import EndpointState
from webhooks_app.pipeline import engine, queue, runner, tick
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.hints import Hints
from webhooks_app.pipeline.lease import lease

from .conftest import Bell, Clock
from .driving import ALIAS, attempt, claimed, committed, waiting
from .factories import EndpointFactory
from .receiver import OK, Receiver, reply

Configure = Callable[..., None]
Pump = Callable[[], engine.Engine]
Until = Callable[..., None]

SLOW = {"state__window": 7, "state__latency_ms": 4_000}


@pytest.fixture
def apart(configure: Configure) -> None:
    """Give slow endpoints a queue of their own."""
    configure(SLOW_QUEUE_NAME="webhooks.slow")


@pytest.mark.django_db
def test_the_time_of_answers_is_smoothed(receiver: Receiver):
    endpoint = EndpointFactory()
    told = []
    for duration in (100, 1_100, 1_100):
        waiting(endpoint)
        receiver.always(endpoint, reply(200, duration_ms=duration))
        attempt(endpoint)
        told.append(EndpointState.objects.get().latency_ms)
    assert told == [100, 300, 460]


@committed
@pytest.mark.usefixtures("apart")
def test_slow_endpoints_go_to_their_queue_and_unknown_ones_do_not(
    pump: Pump, receiver: Receiver, bell: Bell, until: Callable[..., None]
):
    slow, unknown = EndpointFactory(**SLOW), EndpointFactory()
    for endpoint in (slow, unknown):
        waiting(endpoint)
    bell.take()
    runner.deliver([slow.pk, unknown.pk])
    until(lambda: len(receiver.requests) == 1)
    assert len(receiver.to(unknown)) == 1
    assert list(bell.take().slow) == [slow.pk]
    runner.deliver([slow.pk], slow=True)
    until(lambda: len(receiver.to(slow)) == 1)


@committed
def test_without_such_a_queue_everybody_is_served(pump: Pump, receiver: Receiver, until: Callable[..., None]):
    slow = EndpointFactory(**SLOW)
    waiting(slow)
    runner.deliver([slow.pk])
    until(lambda: len(receiver.to(slow)) == 1)


@committed
@pytest.mark.usefixtures("apart")
def test_one_that_answers_quickly_again_comes_back(
    pump: Pump, receiver: Receiver, bell: Bell, until: Callable[..., None]
):
    slow = EndpointFactory(**SLOW)
    receiver.always(slow, reply(200, duration_ms=10))
    for count in range(1, 12):
        waiting(slow)
        runner.deliver([slow.pk], slow=True)
        until(lambda count=count: EndpointState.objects.get().delivered == count)
    bell.take()
    waiting(slow)
    runner.deliver([slow.pk])
    until(lambda: len(receiver.to(slow)) == 12)


@committed
@pytest.mark.usefixtures("apart")
def test_nobody_serves_the_slow_queue_so_the_tick_asks_everybody(
    pump: Pump, receiver: Receiver, bell: Bell, clock: Clock, until: Callable[..., None]
):
    slow = EndpointFactory(**SLOW)
    waiting(slow)
    found = tick.look(ALIAS)
    assert (found.due, found.neglected) == ([slow.pk], [])
    runner.deliver(found.due)
    assert not receiver.requests
    clock.advance(seconds=31)
    found = tick.look(ALIAS)
    assert (found.due, found.neglected) == ([], [slow.pk])
    tick.wake(found)
    assert list(bell.take().neglected) == [slow.pk]
    runner.deliver(found.neglected, slow=True)
    until(lambda: len(receiver.to(slow)) == 1)


@committed
@pytest.mark.usefixtures("apart")
def test_what_is_left_is_carried_on_as_slow_and_never_leaves_the_slow_queue(
    pump: Pump, receiver: Receiver, bell: Bell, until: Until
):
    slow = EndpointFactory(**SLOW)
    waiting(slow, 30)
    receiver.always(slow, OK)
    bell.take()
    runner.deliver([slow.pk], slow=True)
    until(lambda: len(receiver.to(slow)) == 30)
    assert not bell.take().endpoint_ids


def test_messages_name_the_queue_and_say_slow(configure: Configure):
    configure(SLOW_QUEUE_NAME="webhooks.slow")
    with app.connection_for_read() as connection:
        boxes = {name: connection.SimpleQueue(name, no_ack=True) for name in ("webhooks", "webhooks.slow")}
        for box in boxes.values():
            box.clear()
        hints = Hints()
        hints.add(endpoint_ids=[1], slow=[2], neglected=[3])
        queue.CeleryQueue().publish(hints)
        found = {
            name: [json.loads(box.get_nowait().body)[0] for _ in range(box.qsize())]
            for name, box in boxes.items()
        }
        for box in boxes.values():
            box.close()
    assert found == {"webhooks": [[[1]], [[3], True]], "webhooks.slow": [[[2], True]]}


def test_the_task_passes_it_on(monkeypatch: pytest.MonkeyPatch):
    calls: list[Any] = []
    monkeypatch.setattr(runner, "deliver", lambda ids, *, slow: calls.append((ids, slow)))
    tasks.deliver([1])
    tasks.deliver([2], True)
    assert calls == [([1], False), ([2], True)]


@pytest.mark.django_db
def test_a_lease_that_passes_over_slow_endpoints_serves_the_others(receiver: Receiver):
    slow, quick = EndpointFactory(**SLOW), EndpointFactory()
    for endpoint in (slow, quick):
        waiting(endpoint)
    held = lease(ALIAS, [slow.pk, quick.pk], Room(10, 10), divert=True)
    assert (claimed(held), held.slow) == ({quick.pk: 1}, (slow.pk,))
