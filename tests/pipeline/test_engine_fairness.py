"""Behind another tenant's backlog no event waits in the queue, neither for its fan-out nor to be sent."""

import time
from collections.abc import Callable, Iterator

import pytest
from django.db import DatabaseError

from webhooks_app.models import Delivery
from webhooks_app.pipeline import announce, fan_out, runner, spacing, tickets
from webhooks_app.pipeline import engine as engines
from webhooks_app.pipeline.dispatch import has_waiting
from webhooks_app.pipeline.engine import Engine, engine
from webhooks_app.pipeline.spacing import SpacedWakes
from webhooks_app.pipeline.tickets import FanOut, Ticket

from .conftest import Bell
from .driving import ALIAS, committed, keys_of
from .factories import EndpointFactory, emit_for
from .receiver import Receiver

pytestmark = committed


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Keep the wakes that are announced."""
    kept: list[list[int]] = []
    monkeypatch.setattr(announce, "wake", lambda ids, **_: kept.append(sorted(ids)))
    return kept


class Busy(Ticket):
    """A task that is at work until it is told to end."""

    ended = False

    def step(self, engine: Engine) -> bool:
        time.sleep(0.002)
        return self.ended


@pytest.fixture
def busy(pump: Callable[[], Engine]) -> Iterator[Busy]:
    """Keep the process busy with a task."""
    ticket = Busy()
    pump().submit(ticket)
    yield ticket
    ticket.ended = True
    ticket.wait()


def test_who_got_a_little_is_sent_to_at_once_beside_who_got_much(
    pump: Callable[[], Engine], receiver: Receiver, until: Callable[..., None], woken: list[list[int]]
):
    many, few = EndpointFactory(), EndpointFactory()
    emit_for(many, tickets.ONE_HOP + 1)
    emit_for(few, tickets.ONE_HOP)
    runner.fan_out()
    until(lambda: Delivery.objects.filter(endpoint=few, state="delivered").count() == tickets.ONE_HOP)
    assert woken == [[many.pk]]
    assert not receiver.ids(many)


def test_many_who_got_a_little_are_left_to_others(pump: Callable[[], Engine], woken: list[list[int]]):
    endpoints = EndpointFactory.create_batch(tickets.ONE_HOP + 1)
    for endpoint in endpoints:
        emit_for(endpoint)
    runner.fan_out()
    assert woken == [keys_of(endpoints)]


def test_a_backlog_wakes_its_endpoint_now_and_at_the_end(
    pump: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch, woken: list[list[int]]
):
    """Not with every batch: each such message would hold up whoever comes behind it in the queue."""
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 25)
    monkeypatch.setattr(spacing, "GAP", 3600.0)
    many = EndpointFactory()
    emit_for(many, 100)
    runner.fan_out()
    assert Delivery.objects.count() == 100
    assert woken == [[many.pk], [many.pk]]


def test_wakes_are_owed_when_a_batch_fails(
    pump: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch, woken: list[list[int]]
):
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 25)
    monkeypatch.setattr(spacing, "GAP", 3600.0)
    many = EndpointFactory()
    emit_for(many, 75)
    real, calls = tickets.fan_out_batch, []

    def fails_at_last(alias: str, outbox_alias: str) -> fan_out.Batch:
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("a fault of ours")
        return real(alias, outbox_alias)

    monkeypatch.setattr(tickets, "fan_out_batch", fails_at_last)
    runner.fan_out()
    assert Delivery.objects.count() == 50
    assert woken == [[many.pk], [many.pk]]


def test_spaced_wakes(monkeypatch: pytest.MonkeyPatch, woken: list[list[int]]):
    now = [100.0]
    monkeypatch.setattr(spacing.time, "monotonic", lambda: now[0])
    wakes = SpacedWakes()
    wakes.add([1, 2])
    wakes.add([1, 3])
    assert woken == [[1, 2], [3]]
    now[0] += spacing.GAP
    wakes.add([])
    assert woken[2:] == [[1]]
    wakes.add([1])
    wakes.settle()
    wakes.settle()
    assert woken[3:] == [[1]]


def test_a_busy_process_sees_to_new_events_itself(
    busy: Busy, receiver: Receiver, bell: Bell, until: Callable[..., None]
):
    """The hint of an emit may wait in the queue behind the tasks that keep all processes busy."""
    endpoint = EndpointFactory()
    (ref,) = emit_for(endpoint)
    bell.take()
    until(lambda: receiver.ids(endpoint) == [ref.id])


def test_an_idle_process_waits_for_its_hints(
    pump: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    looks = []
    monkeypatch.setattr(engines, "has_waiting", lambda alias: bool(looks.append(alias)))
    monkeypatch.setattr(engines, "GLANCE_SECONDS", 0.0)
    runner.tick()
    until(lambda: not pump()._tickets)
    looks.clear()
    time.sleep(0.05)
    assert not looks


def test_one_fan_out_at_a_time_is_enough(
    busy: Busy, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    """A busy process does not start another one of its own while one is under way."""
    begun: list[FanOut] = []

    class Endless(FanOut):
        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

        def step(self, engine: Engine) -> bool:
            return busy.ended

    monkeypatch.setattr(engines, "FanOut", Endless)
    monkeypatch.setattr(engines, "GLANCE_SECONDS", 0.0)
    emit_for("nobody")
    until(lambda: begun)
    for _ in range(20):
        time.sleep(0.002)
    assert len(begun) == 1
    assert has_waiting(ALIAS)


def test_a_database_that_is_away_is_not_asked_again_and_again(
    busy: Busy, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    asked = []

    def away(alias: str) -> bool:
        asked.append(alias)
        raise DatabaseError("away")

    monkeypatch.setattr(engines, "has_waiting", away)
    monkeypatch.setattr(engines, "GLANCE_SECONDS", 0.0)
    until(lambda: asked)
    time.sleep(0.05)
    assert len(asked) == 1
    assert engine() is not None
