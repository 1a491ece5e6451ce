"""Who has more than one lease may claim is carried on by the process, and keeps nobody waiting meanwhile."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.utils import timezone

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.ids import new_token
from webhooks_app.models import Delivery, Endpoint
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import runner, tickets
from webhooks_app.pipeline.engine import Engine, engine, shut_down
from webhooks_app.pipeline.gates import BATCH
from webhooks_app.pipeline.pace import AT_ONCE
from webhooks_app.pipeline.rounds import IDLE, Rounds
from webhooks_app.pipeline.work import Lease

from .conftest import Bell
from .driving import check_books, committed, waiting
from .factories import EndpointFactory, emit_for
from .receiver import OK, Receiver, headers_of

pytestmark = committed
Pump = Callable[[], Engine]
Until = Callable[..., None]
Configure = Callable[..., None]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand nothing over, however slow this machine is just now."""
    monkeypatch.setattr(tickets, "HAND_OVER", 30)


def delivered(endpoint: Endpoint) -> int:
    return Delivery.objects.filter(endpoint=endpoint, state="delivered").count()


def rounds() -> list[Rounds]:
    return [ticket for ticket in engine()._tickets if isinstance(ticket, Rounds)]


def bulk_work(endpoint: Endpoint, count: int) -> list[Delivery]:
    made = waiting(endpoint, count)
    Delivery.objects.filter(endpoint=endpoint).update(priority=Delivery.Priority.BULK)
    return made


class Door:
    """A receiver that lets requests in one by one."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.arrived = threading.Semaphore(0)

    def __call__(self, request: Request) -> AttemptResult:
        self.arrived.release()
        assert self.permits.acquire(timeout=30)
        return OK


@pytest.fixture
def door() -> Door:
    return Door()


def begin_rounds(
    endpoint: Endpoint, receiver: Receiver, door: Door, until: Until, *, slow: bool = False
) -> None:
    """Have one delivery recorded, and the second one sent by the process's rounds and held at the door."""
    receiver.always(endpoint, door)
    door.permits.release()
    runner.deliver([endpoint.pk], slow=slow)
    until(rounds)
    for _ in range(2):
        assert door.arrived.acquire(timeout=10)


def test_a_task_ends_with_its_first_batch_and_the_rest_is_sent_all_the_same(
    pump: Pump, receiver: Receiver, until: Until, bell: Bell, door: Door
):
    endpoint = EndpointFactory(max_in_flight=1)
    waiting(endpoint, 5)
    bell.take()
    begin_rounds(endpoint, receiver, door, until)
    assert delivered(endpoint) == 1
    door.permits.release(4)
    until(lambda: delivered(endpoint) == 5)
    until(lambda: not rounds())
    assert not bell.take().endpoint_ids
    check_books()


def test_others_are_served_between_the_batches_of_who_has_much(
    pump: Pump, receiver: Receiver, until: Until, door: Door
):
    many, few = EndpointFactory(max_in_flight=1), EndpointFactory()
    waiting(many, 3)
    waiting(few)
    begin_rounds(many, receiver, door, until)
    runner.deliver([few.pk])
    assert delivered(few) == 1
    door.permits.release(2)
    until(lambda: delivered(many) == 3)


def test_a_wake_of_an_endpoint_that_is_carried_on_ends_at_once_and_is_not_lost(
    pump: Pump, receiver: Receiver, until: Until, door: Door
):
    """What was committed before the wake is sent, though the lease under way saw none of it."""
    endpoint = EndpointFactory(state__window=100)
    receiver.always(endpoint, door)
    waiting(endpoint, BATCH + 1)
    door.permits.release(BATCH)
    runner.deliver([endpoint.pk])
    for _ in range(BATCH + 1):
        assert door.arrived.acquire(timeout=10)
    waiting(endpoint, 2)
    for _ in range(3):
        runner.deliver([endpoint.pk])
    assert len(rounds()) == 1
    assert delivered(endpoint) == BATCH
    door.permits.release(3)
    until(lambda: delivered(endpoint) == BATCH + 3)


@pytest.mark.parametrize("slow", [False, True])
def test_a_process_that_ends_leaves_the_rest_to_others(
    slow: bool, pump: Pump, receiver: Receiver, until: Until, bell: Bell, door: Door, configure: Configure
):
    configure(SLOW_QUEUE_NAME="webhooks.slow")
    endpoint = EndpointFactory(max_in_flight=1)
    waiting(endpoint, 5)
    bell.take()
    begin_rounds(endpoint, receiver, door, until, slow=slow)
    running = pump()
    ending = threading.Thread(target=shut_down, args=(10,))
    ending.start()
    until(running.is_stopping)
    door.permits.release(5)
    ending.join()
    assert delivered(endpoint) == 2
    rung = bell.take()
    assert endpoint.pk in (rung.slow if slow else rung.endpoint_ids)


def test_a_fault_of_the_rounds_leaves_everybody_to_the_next_wake(
    pump: Pump, receiver: Receiver, until: Until, door: Door, monkeypatch: pytest.MonkeyPatch
):
    endpoint = EndpointFactory(max_in_flight=1)
    waiting(endpoint, 3)
    begin_rounds(endpoint, receiver, door, until)

    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patched:
        patched.setattr("webhooks_app.pipeline.engine.lease", failing)
        door.permits.release()
        until(lambda: not rounds())
    door.permits.release()
    runner.deliver([endpoint.pk])
    until(lambda: delivered(endpoint) == 3)


def test_live_work_goes_on_at_full_speed_while_bulk_work_rests(pump: Pump, receiver: Receiver, until: Until):
    endpoint = EndpointFactory(state__window=100)
    pump().pace.saw_live(time.monotonic())
    bulk = bulk_work(endpoint, 2 * AT_ONCE + 1)
    live = waiting(endpoint, 60)
    runner.deliver([endpoint.pk])
    until(lambda: delivered(endpoint) == len(bulk) + len(live))
    until(lambda: not rounds())
    sent = [headers_of(each)["webhook-id"] for each in receiver.to(endpoint)]
    late = {each.event.public_id for each in bulk} & set(sent[:BATCH])
    assert not late, "the first lease was for live work alone"


@pytest.mark.parametrize(("live", "most"), [(False, 50), (True, AT_ONCE)])
def test_beside_live_work_few_of_bulk_work_are_under_way(
    live: bool, most: int, pump: Pump, receiver: Receiver, until: Until, door: Door
):
    endpoint = EndpointFactory(state__window=100)
    receiver.always(endpoint, door)
    bulk_work(endpoint, 60)
    if live:
        pump().pace.saw_live(time.monotonic())
    started = threading.Thread(target=runner.deliver, args=([endpoint.pk],))
    started.start()
    for _ in range(most):
        assert door.arrived.acquire(timeout=10)
    assert Delivery.objects.filter(lease_until__isnull=False).count() == most
    door.permits.release(60)
    started.join()
    until(lambda: delivered(endpoint) == 60)


def test_rounds_that_find_nothing_to_send_pause_before_they_look_again(
    pump: Pump, receiver: Receiver, until: Until, monkeypatch: pytest.MonkeyPatch
):
    """Whatever a lease says of endpoints with more, the process does not turn on them without a pause."""
    endpoint, looks = EndpointFactory(), []

    def nothing_and_more(alias: str, endpoint_ids: list[int], *_: object, **__: object) -> Lease:
        looks.append(time.monotonic())
        at = timezone.now()
        return Lease(token=new_token(), claimed_at=at, until=at, mark=0.0, resting=frozenset(endpoint_ids))

    monkeypatch.setattr("webhooks_app.pipeline.engine.lease", nothing_and_more)
    pump().pace.saw_live(time.monotonic())
    runner.deliver([endpoint.pk])
    until(lambda: len(looks) >= 4)
    # The first is the task's own.
    assert min(late - early for early, late in pairwise(looks[1:])) >= IDLE
    monkeypatch.undo()
    until(lambda: not rounds())


def test_a_process_sees_live_work_in_what_it_fans_out(pump: Pump, receiver: Receiver):
    emit_for(EndpointFactory(), tickets.ONE_HOP + 1)
    assert not pump().pace.is_beside_live(time.monotonic())
    runner.fan_out()
    assert pump().pace.is_beside_live(time.monotonic())


@pytest.mark.parametrize("live", [False, True])
def test_a_process_sees_live_work_in_what_it_sends(live: bool, pump: Pump, receiver: Receiver):
    endpoint = EndpointFactory()
    waiting(endpoint) if live else bulk_work(endpoint, 1)
    runner.deliver([endpoint.pk])
    assert delivered(endpoint) == 1
    assert pump().pace.is_beside_live(time.monotonic()) is live
