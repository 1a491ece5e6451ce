"""The engine: leases and records in one thread, lends requests to many, and never waits for a straggler."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import transaction

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.models import Delivery, EndpointState
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import engine as engines
from webhooks_app.pipeline import runner, senders, tickets
from webhooks_app.pipeline.engine import Engine, engine, shut_down
from webhooks_app.pipeline.tickets import Deliver

from .conftest import Bell, Worker
from .driving import check_books, claim, committed, keys_of, waiting
from .factories import EndpointFactory, emit_for
from .receiver import OK, Receiver, reply

pytestmark = committed


class Gate:
    """A receiver that hangs until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.count = 0

    def __call__(self, request: Request) -> AttemptResult:
        self.count += 1
        self.arrived.release()
        assert self.opened.wait(30)
        return OK


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


def seconds(work: Callable[[], object]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


def delivered() -> int:
    return Delivery.objects.filter(state="delivered").count()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand nothing over, however slow this machine is just now."""
    monkeypatch.setattr(tickets, "HAND_OVER", 30)


@pytest.mark.usefixtures("patient")
def test_a_deliver_task_sends_and_records(pump: Callable[[], Engine], receiver: Receiver):
    endpoints = [EndpointFactory(state__window=50) for _ in range(3)]
    for endpoint in endpoints:
        waiting(endpoint, 20)
    runner.deliver(keys_of(endpoints))
    assert delivered() == 60
    check_books()


@pytest.mark.usefixtures("patient")
def test_the_process_goes_on_while_more_is_due(
    pump: Callable[[], Engine], receiver: Receiver, until: Callable[..., None]
):
    endpoint = EndpointFactory(max_in_flight=8)
    waiting(endpoint, 60)
    runner.deliver([endpoint.pk])
    until(lambda: delivered() == 60)


def test_a_fan_out_task_sends_small_batches_itself(
    pump: Callable[[], Engine], receiver: Receiver, until: Callable[..., None], bell: Bell
):
    endpoint = EndpointFactory()
    emit_for(endpoint, 3)
    bell.take()
    runner.fan_out()
    until(lambda: delivered() == 3)
    assert not bell.take().endpoint_ids


def test_a_fan_out_task_leaves_large_batches_to_others(
    pump: Callable[[], Engine], receiver: Receiver, bell: Bell
):
    endpoints = EndpointFactory.create_batch(tickets.ONE_HOP + 1, tenant_id="acme")
    emit_for("acme")
    bell.take()
    runner.fan_out()
    assert sorted(bell.take().endpoint_ids) == keys_of(endpoints)


@pytest.mark.usefixtures("patient")
def test_a_fan_out_task_takes_all_outboxes_and_own_events(pump: Callable[[], Engine], receiver: Receiver):
    gone, listener = EndpointFactory(), EndpointFactory(tenant_id=None, events=["webhook.disabled"])
    waiting(gone)
    receiver.always(gone, reply(410))
    runner.deliver([gone.pk])
    runner.fan_out()
    assert Delivery.objects.filter(endpoint=listener).count() == 1


def test_a_tick_task_wakes_what_is_due(pump: Callable[[], Engine], bell: Bell):
    endpoint = EndpointFactory()
    waiting(endpoint)
    emit_for("nobody")
    bell.take()
    runner.tick()
    found = bell.take()
    assert (found.fan_out, list(found.endpoint_ids)) == (True, [endpoint.pk])


def test_a_process_looks_for_itself_every_few_seconds(
    worker: Worker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    """The queue may be too long for the tick that beat sends."""
    monkeypatch.setattr(engines, "TICK_SECONDS", 0.05)
    waiting(EndpointFactory())
    engine()
    until(lambda: delivered() == 1)


def test_a_straggler_is_handed_over_after_a_tenth_of_a_second(
    pump: Callable[[], Engine], receiver: Receiver, gate: Gate, until: Callable[..., None]
):
    slow, quick = EndpointFactory(), EndpointFactory()
    receiver.always(slow, gate)
    for endpoint in (slow, quick):
        waiting(endpoint, 3)
    took = seconds(lambda: runner.deliver([slow.pk, quick.pk]))
    assert tickets.HAND_OVER <= took < 5
    until(lambda: delivered() == 3)
    gate.opened.set()
    until(lambda: delivered() == 6)
    check_books()


def test_hanging_endpoints_one_after_another_do_not_hold_up_a_healthy_one(
    worker: Worker, receiver: Receiver, gate: Gate, until: Callable[..., None]
):
    """B122"""
    for _ in range(4):
        slow = EndpointFactory()
        receiver.always(slow, gate)
        waiting(slow, 20)
    healthy = EndpointFactory()
    waiting(healthy, 20)
    until(lambda: len(receiver.to(healthy)) == 20)
    assert gate.count <= 16
    gate.opened.set()
    until(lambda: delivered() == 100, 20)
    check_books()


def test_hanging_endpoints_get_half_of_the_senders(
    worker: Worker, receiver: Receiver, gate: Gate, until: Callable[..., None], configure: Callable[..., None]
):
    """B122"""
    configure(SENDER_THREADS=4, MAX_SENDER_THREADS=8)
    slow = EndpointFactory.create_batch(4)
    for endpoint in slow:
        receiver.always(endpoint, gate)
        waiting(endpoint, 4)
    until(lambda: gate.count == 4)
    healthy = EndpointFactory(state__window=8)
    waiting(healthy, 10)
    until(lambda: len(receiver.to(healthy)) == 10)
    assert gate.count == 4


def test_a_crowd_does_not_spin(
    worker: Worker,
    receiver: Receiver,
    gate: Gate,
    until: Callable[..., None],
    configure: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
):
    """Endpoints without a sender are looked at again in a moment, not as fast as the broker can."""
    configure(SENDER_THREADS=1, MAX_SENDER_THREADS=2)
    leases = []
    real = engines.lease
    monkeypatch.setattr(engines, "lease", lambda *args, **options: leases.append(1) or real(*args, **options))
    for endpoint in EndpointFactory.create_batch(3):
        receiver.always(endpoint, gate)
        waiting(endpoint, 2)
    until(lambda: gate.count == 1)
    time.sleep(0.5)
    assert len(leases) < 15
    assert gate.count == 1


@pytest.mark.usefixtures("patient")
def test_a_large_lease_calls_for_help(
    pump: Callable[[], Engine],
    receiver: Receiver,
    bell: Bell,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    """Another process may share the load, long before this one is through with its own part."""
    monkeypatch.setattr(tickets, "HELP_FROM", 4)
    large, small = EndpointFactory(), EndpointFactory()
    for endpoint, count in ((large, 10), (small, 3)):
        waiting(endpoint, count)
        receiver.always(endpoint, gate)
    bell.take()
    for endpoint in (small, large):
        engine().submit(Deliver([endpoint.pk]))
    until(lambda: large.pk in bell._kept.endpoint_ids, 3)  # before the engine's own tick finds it
    assert small.pk not in bell.take().endpoint_ids
    gate.opened.set()


def test_no_more_is_leased_than_there_are_senders(
    pump: Callable[[], Engine], receiver: Receiver, gate: Gate, configure: Callable[..., None]
):
    configure(SENDER_THREADS=2, MAX_SENDER_THREADS=4)
    endpoint = EndpointFactory(state__window=100)
    waiting(endpoint, 10)
    receiver.always(endpoint, gate)
    for _ in range(3):
        runner.deliver([endpoint.pk])
    assert Delivery.objects.filter(lease_token__isnull=False).count() == 4


def test_a_drain_gives_back_what_was_not_sent_and_records_what_is_open(
    pump: Callable[[], Engine],
    receiver: Receiver,
    gate: Gate,
    configure: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
):
    """B004, B021"""
    configure(SENDER_THREADS=2, MAX_SENDER_THREADS=8)
    monkeypatch.setattr(senders, "STUCK_AFTER", 60)
    endpoint = EndpointFactory(state__window=8)
    waiting(endpoint, 8)
    receiver.always(endpoint, gate)
    engine().submit(Deliver([endpoint.pk]))
    for _ in range(2):
        assert gate.arrived.acquire(timeout=5)
    assert Delivery.objects.filter(lease_token__isnull=False).count() == 8
    threading.Timer(0.2, gate.opened.set).start()
    assert shut_down(10)
    assert delivered() == gate.count == 2
    left = Delivery.objects.filter(state="pending")
    assert set(left.values_list("attempts", "lapses", "lease_token")) == {(0, 0, None)}
    check_books()


@pytest.mark.pg
def test_a_row_that_somebody_locks_is_left_alone_for_a_moment(
    pump: Callable[[], Engine],
    receiver: Receiver,
    bell: Bell,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    leased: list[list[int]] = []
    real = engines.lease
    monkeypatch.setattr(
        engines,
        "lease",
        lambda alias, ids, room, **more: leased.append(ids) or real(alias, ids, room, **more),
    )
    busy, free = EndpointFactory(), EndpointFactory()
    for endpoint in (busy, free):
        waiting(endpoint, 2)
    bell.take()
    with transaction.atomic():
        EndpointState.objects.select_for_update().get(pk=busy.pk)
        runner.deliver([busy.pk, free.pk])
        until(lambda: len(receiver.to(free)) == 2)
        assert bell.take().later == {busy.pk: 1.0}
        stopped = time.monotonic()
        with monkeypatch.context() as patch:
            patch.setattr(engines.time, "monotonic", lambda: stopped)
            runner.deliver([busy.pk, free.pk])
    assert leased == [[busy.pk, free.pk], [free.pk]]
    until(lambda: runner.deliver([busy.pk]) or len(receiver.to(busy)) == 2)


def test_a_drain_waits_no_longer_than_it_may(pump: Callable[[], Engine], receiver: Receiver, gate: Gate):
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.always(endpoint, gate)
    engine().submit(Deliver([endpoint.pk]))
    assert gate.arrived.acquire(timeout=5)
    assert not shut_down(0.1)
    gate.opened.set()
    assert shut_down(10)
    assert delivered() == 1


def test_a_stopping_engine_leases_nothing(
    pump: Callable[[], Engine], receiver: Receiver, gate: Gate, monkeypatch: pytest.MonkeyPatch
):
    hanging, other = EndpointFactory(), EndpointFactory()
    for endpoint in (hanging, other):
        waiting(endpoint)
    receiver.always(hanging, gate)
    running = engine()
    running.submit(Deliver([hanging.pk]))
    assert gate.arrived.acquire(timeout=5)
    assert not running.drain(0.05)
    leases = []
    monkeypatch.setattr(engines, "lease", lambda *_: leases.append(1))
    late = Deliver([other.pk])
    running.submit(late)
    late.wait()
    gate.opened.set()
    assert running.drain(10)
    assert not leases


def test_after_a_drain_a_task_neither_hangs_nor_sends(pump: Callable[[], Engine]):
    old = engine()
    assert old.drain(10)
    ticket = Deliver([1])
    old.submit(ticket)
    assert ticket._closed.wait(2)


@pytest.mark.usefixtures("patient")
def test_after_a_drain_the_process_may_start_again(pump: Callable[[], Engine], receiver: Receiver):
    assert engine() is engine()
    first = engine()
    assert shut_down(10)
    endpoint = EndpointFactory()
    waiting(endpoint)
    runner.deliver([endpoint.pk])
    assert engine() is not first
    assert delivered() == 1


@pytest.mark.usefixtures("patient")
def test_an_engine_that_died_is_replaced(pump: Callable[[], Engine], receiver: Receiver):
    first = engine()
    first._stopping.set()
    first._inbox.put(None)
    first._thread.join(5)
    first._stopping.clear()
    endpoint = EndpointFactory()
    waiting(endpoint)
    runner.deliver([endpoint.pk])
    assert delivered() == 1


def test_no_thread_is_left_behind(pump: Callable[[], Engine], receiver: Receiver, until: Callable[..., None]):
    endpoint = EndpointFactory(state__window=50)
    waiting(endpoint, 40)
    runner.deliver([endpoint.pk])
    assert shut_down(10)

    def ours() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name.startswith("webhooks-")]

    until(lambda: not {"webhooks-engine", "webhooks-sender"} & set(ours()))


def test_a_lease_counts_requests_that_are_handed_over(
    pump: Callable[[], Engine], receiver: Receiver, gate: Gate, until: Callable[..., None]
):
    endpoint = EndpointFactory(state__window=3)
    waiting(endpoint, 5)
    receiver.always(endpoint, gate)
    for _ in range(2):
        runner.deliver([endpoint.pk])
        until(lambda: gate.count == 3)
    assert not claim(endpoint).jobs
    assert EndpointState.objects.get().starved
