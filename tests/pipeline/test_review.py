"""Faults that a reader found by thought: each would have stopped, doubled or misdirected something."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from webhooks_app.destinations import https
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.pipeline import dedicated, engine, fan_out, tick
from webhooks_app.pipeline.batch import Batch, OutcomesKeptError, contents_of, prepare
from webhooks_app.pipeline.contents import read_contents
from webhooks_app.pipeline.doorbell import Doorbell
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.hints import Hints
from webhooks_app.pipeline.lease import lease
from webhooks_app.pipeline.queue import PollQueue
from webhooks_app.pipeline.senders import Senders
from webhooks_app.pipeline.sending import Configs
from webhooks_app.pipeline.tickets import Deliver, FanOut, Tick

from .conftest import Worker
from .driving import ALIAS, attempt, attempts_of, claim, committed, committed_in_both, waiting
from .factories import EndpointFactory, emit_for

Until = Callable[..., None]
Pump = Callable[[], engine.Engine]


def batch_of(endpoint: Endpoint, senders: int = 1_000) -> tuple[Batch, Configs]:
    """Lease at an endpoint and send; nothing is recorded yet."""
    held, configs = lease(ALIAS, [endpoint.pk], Room(senders, senders)), Configs()
    prepare(ALIAS, held, configs)
    batch = Batch(held, contents_of(ALIAS, held), lambda _: None)
    for unit in held.units:
        batch.send(unit, configs.get(unit[0].endpoint_id), lambda: False)
    return batch, configs


@committed
def test_a_fault_while_sending_is_an_outcome_and_gives_the_sender_back(
    worker: Worker, pump: Pump, until: Until, monkeypatch: pytest.MonkeyPatch
):
    def unreadable() -> None:
        raise OSError("the CA bundle is gone")

    monkeypatch.setattr(https, "transport", unreadable)
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    worker.ring(Hints(endpoint_ids={endpoint.pk: None}))
    until(lambda: Attempt.objects.count() == 3)
    assert set(Attempt.objects.values_list("error", flat=True)) == {"worker_lost"}
    until(lambda: pump().room().senders == pump().senders.most)


@pytest.mark.django_db
@pytest.mark.usefixtures("receiver")
def test_an_event_that_expires_at_the_end_of_time_is_delivered():
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint, expires_at=datetime.max.replace(tzinfo=UTC))
    attempt(endpoint)
    assert [each.status for each in attempts_of(delivery)] == ["succeeded"]


@committed
@pytest.mark.usefixtures("receiver")
def test_an_outcome_that_cannot_be_written_at_all_stops_no_other():
    endpoint = EndpointFactory()
    first, *others = waiting(endpoint, 3)
    Delivery.objects.filter(pk=first.pk).update(attempts=1)
    batch, configs = batch_of(endpoint)
    record = next(iter(batch.lease.jobs))
    assert record.id == first.pk
    Attempt.objects.create(
        id=batch.lease.token,
        delivery=first,
        endpoint=endpoint,
        number=2,
        trigger="schedule",
        status="failed",
        duration_ms=1,
        created_at=first.created_at,
    )
    with pytest.raises(OutcomesKeptError):
        batch.record_singly(ALIAS, configs)
    assert [len(attempts_of(each)) for each in others] == [1, 1]
    assert not batch.settled


@pytest.mark.django_db
@pytest.mark.usefixtures("receiver")
def test_the_evidence_names_the_url_that_was_sent_to():
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    batch, configs = batch_of(endpoint)
    Endpoint.objects.filter(pk=endpoint.pk).update(url="https://moved.example/", revision=2)
    waiting(endpoint)
    prepare(ALIAS, claim(endpoint), configs)
    batch.record(ALIAS, configs)
    assert attempts_of(delivery)[0].url == endpoint.url


@pytest.mark.django_db
def test_a_body_is_sent_only_under_its_own_id():
    (delivery,) = waiting(EndpointFactory())
    # As after the outbox was restored to an earlier moment: its keys are given anew.
    OutboxEntry.objects.update(event_id="of-a-stranger", body=b"a stranger's")
    assert read_contents(ALIAS, [delivery.event_id])[delivery.event_id].body is None


@committed_in_both
def test_a_body_of_the_other_database_is_sent_only_under_its_own_id(configure: Callable[..., None]):
    configure(OUTBOX_DATABASES=["default", "second"])
    (delivery,) = waiting(EndpointFactory(), using="second")
    assert read_contents(ALIAS, [delivery.event_id])[delivery.event_id].body
    OutboxEntry.objects.using("second").update(event_id="of-a-stranger", body=b"a stranger's")
    assert read_contents(ALIAS, [delivery.event_id])[delivery.event_id].body is None


@pytest.mark.django_db
@pytest.mark.usefixtures("receiver")
def test_an_event_of_a_database_that_is_no_more_waits_and_stops_no_other():
    endpoint = EndpointFactory()
    lost, other = waiting(endpoint, 2)
    Event.objects.filter(pk=lost.event_id).update(outbox_alias="dropped")
    attempt(endpoint)
    assert len(attempts_of(other)) == 1
    lost.refresh_from_db()
    assert (lost.state, lost.attempts, lost.lease_token) == ("pending", 0, None)


@committed_in_both
@pytest.mark.usefixtures("receiver", "worker")
def test_an_outbox_that_is_away_does_not_stop_the_next_one(
    pump: Pump, until: Until, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    configure(OUTBOX_DATABASES=["second", "default"])
    read = fan_out.read_turn

    def away(tx: Any, *args: Any, **values: Any) -> Any:
        if tx.alias == "second":
            raise OperationalError("away")
        return read(tx, *args, **values)

    monkeypatch.setattr(fan_out, "read_turn", away)
    emit_for(EndpointFactory())
    pump().submit(FanOut())
    until(lambda: Delivery.objects.exists())


@committed_in_both
@pytest.mark.usefixtures("receiver", "worker")
def test_an_outbox_that_never_ends_leaves_the_next_one_its_turn(
    pump: Pump, until: Until, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    configure(OUTBOX_DATABASES=["default", "second"])
    monkeypatch.setattr("webhooks_app.pipeline.tickets.has_waiting", lambda source: source == "default")
    emit_for(EndpointFactory(), using="second")
    pump().submit(FanOut())
    until(lambda: Delivery.objects.exists())


@committed
def test_a_tick_survives_an_outbox_whose_connection_is_closed(monkeypatch: pytest.MonkeyPatch):
    def closed(_: str) -> bool:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(tick, "has_waiting", closed)
    endpoint = EndpointFactory()
    waiting(endpoint)
    assert tick.look(ALIAS).due == [endpoint.pk]


@pytest.mark.django_db
def test_a_wake_of_the_tick_that_finds_no_sender_is_repeated_in_a_moment():
    endpoint = EndpointFactory()
    waiting(endpoint)
    assert tick.look(ALIAS).due == [endpoint.pk]
    assert claim(endpoint, senders=0).later == {endpoint.pk: 1.0}
    # The second look finds the wake that the first one sent.
    assert claim(endpoint, senders=0).later == {}


def test_a_wake_never_comes_before_its_time():
    hints = Hints(later={1: 1.041, 2: 0.311, 3: 2.0, 4: 0.001, 5: 3.04})
    assert {ids[0]: wait for ids, wait in hints.wakes()} == {1: 1.05, 2: 0.32, 3: 2.0, 4: 0.01, 5: 3.1}


@committed
@pytest.mark.usefixtures("receiver")
def test_a_process_with_one_sender_delivers(worker: Worker, until: Until, configure: Callable[..., None]):
    configure(SENDER_THREADS=1, MAX_SENDER_THREADS=1)
    endpoint = EndpointFactory()
    waiting(endpoint)
    worker.ring(Hints(endpoint_ids={endpoint.pk: None}))
    until(lambda: Attempt.objects.exists())


@pytest.mark.django_db
def test_a_ticket_that_comes_after_the_end_keeps_nobody_waiting(pump: Pump):
    ended = pump()
    assert ended.drain(10)
    for late in (Tick(), FanOut(), Deliver([1])):
        ended.submit(late)
        assert late._closed.is_set()


@pytest.mark.django_db
def test_an_engine_whose_thread_died_is_replaced(pump: Pump):
    dead = pump()
    assert dead.drain(10)
    dead._stopping.clear()
    assert pump() is not dead


def test_senders_start_when_the_system_has_threads_again(monkeypatch: pytest.MonkeyPatch):
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    senders, done = Senders(2, 4), threading.Event()
    senders.submit(done.set)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        for _ in range(5):
            senders.grow()
    senders.grow()
    assert done.wait(10)
    senders.close()


def test_a_doorbell_without_a_thread_publishes_itself_and_gets_one_later(monkeypatch: pytest.MonkeyPatch):
    def none_left(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    published = []

    class Heard(PollQueue):
        def publish(self, hints: Hints) -> None:
            published.append(threading.current_thread().name)

    bell = Doorbell(Heard())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        bell.ring(Hints(fan_out=True))
    assert published == [threading.current_thread().name]
    bell.ring(Hints(fan_out=True))
    assert bell.flush(10)
    deadline = time.monotonic() + 10
    while len(published) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert published[1] == "webhooks-doorbell"


@committed
def test_an_engine_that_cannot_have_its_own_connections_works_with_the_ordinary_ones(
    pump: Pump, monkeypatch: pytest.MonkeyPatch
):
    def refused(alias: str) -> None:
        raise RuntimeError(alias)

    monkeypatch.setattr(dedicated, "dedicate", refused)
    ticket = Tick()
    pump().submit(ticket)
    assert ticket._closed.wait(10)
