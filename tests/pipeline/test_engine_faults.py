"""The engine in trouble: a database that fails, outcomes that cannot be written, faults in any step."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DataError, OperationalError

from webhooks_app.models import Delivery, OutboxEntry
from webhooks_app.pipeline import batch as batches
from webhooks_app.pipeline import engine as engines
from webhooks_app.pipeline import fan_out, runner, senders, tickets
from webhooks_app.pipeline.engine import Engine, engine
from webhooks_app.pipeline.senders import Senders

from .conftest import Bell, Clock, Worker
from .driving import attempts_of, check_books, committed, committed_in_both, waiting
from .factories import EndpointFactory, emit_for
from .receiver import OK, Receiver, reply

pytestmark = committed


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a failed record soon."""
    monkeypatch.setattr(engines, "RECORD_AGAIN", 0.02)


class Failing:
    """Stands in for a step: raises so many times, then does the real thing."""

    def __init__(self, real: Callable[..., Any], error: BaseException, times: int) -> None:
        self.real, self.error, self.left = real, error, times
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.left > 0:
            self.left -= 1
            raise self.error
        return self.real(*args, **kwargs)


def fail(patch: pytest.MonkeyPatch, module: Any, name: str, error: BaseException, times: int = 1) -> Failing:
    failing = Failing(getattr(module, name), error, times)
    patch.setattr(module, name, failing)
    return failing


def states() -> dict[int, str]:
    return dict(Delivery.objects.values_list("pk", "state"))


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a slip"), RuntimeError("another")])
def test_outcomes_are_kept_while_they_cannot_be_recorded(
    error: Exception,
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    failing = fail(monkeypatch, batches, "record", error, times=5)
    runner.deliver([endpoint.pk])
    until(lambda: set(states().values()) == {"delivered"})
    assert failing.calls >= 6
    assert len(receiver.requests) == 3
    check_books()


def test_outcomes_are_given_up_when_the_claim_has_lapsed_and_sent_again(
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    failing = fail(monkeypatch, batches, "record", OperationalError("away"), times=10**9)
    monkeypatch.setattr(engines.Batch, "record_singly", lambda *_: None)
    runner.deliver([endpoint.pk])
    until(lambda: failing.calls > 2)
    (held,) = engine()._batches
    # The local clock says so too: as if half a minute had passed.
    object.__setattr__(held.lease, "mark", held.lease.mark - 31)
    until(lambda: "not recorded in time" in caplog.text)
    failing.left = 0
    clock.advance(seconds=31)
    runner.deliver([endpoint.pk])
    until(lambda: states()[delivery.pk] == "delivered")
    assert len(receiver.requests) == 2
    assert [row.number for row in attempts_of(delivery)] == [1]


def test_an_outcome_that_cannot_be_written_stops_no_other(
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    endpoint = EndpointFactory()
    bad, *good = waiting(endpoint, 3)
    real = batches.record

    def record(alias: str, lease: Any, judged: Any, *rest: Any, **named: Any) -> Any:
        if any(each.job.id == bad.pk and each.result.body for each in judged):
            raise DataError("a value the database refuses")
        return real(alias, lease, judged, *rest, **named)

    monkeypatch.setattr(batches, "record", record)
    receiver.always(endpoint, reply(200, body=b"ok"))
    runner.deliver([endpoint.pk])
    until(lambda: set(states().values()) == {"delivered"})
    assert len(receiver.requests) == 3
    (row,) = attempts_of(bad)
    assert (row.detail, bytes(row.reply_body)) == ("unrecordable", b"")
    assert all(bytes(attempts_of(each)[0].reply_body) == b"ok" for each in good)
    check_books()


STEPS = [
    (engines, "lease"),
    (engines, "prepare"),
    (engines, "contents_of"),
    (tickets, "fan_out_batch"),
    (tickets, "fan_out_own"),
    (tickets, "has_waiting"),
    (engines.announce, "ended"),
    (engines.announce, "leased"),
]


@pytest.mark.parametrize("error", [OperationalError("away"), ValueError("a slip")])
@pytest.mark.parametrize(("module", "name"), STEPS)
def test_a_fault_in_a_step_ends_neither_the_pump_nor_the_work(
    module: Any,
    name: str,
    error: Exception,
    pump: Callable[[], Engine],
    receiver: Receiver,
    bell: Bell,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
    clock: Clock,
):
    endpoint = EndpointFactory()
    emit_for(endpoint, 3)
    first = engine()
    fail(monkeypatch, module, name, error)

    def arrived() -> bool:
        runner.fan_out()
        runner.deliver([endpoint.pk])
        clock.advance(seconds=31)
        return len(set(receiver.ids())) == 3

    until(arrived)
    assert engine() is first
    until(lambda: set(states().values()) == {"delivered"})
    check_books()


@pytest.mark.parametrize("name", ["prepare", "contents_of"])
def test_a_claim_that_cannot_be_sent_is_given_back(
    name: str,
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    until: Callable[..., None],
):
    """It neither keeps its deliveries until it lapses, nor counts against them."""
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    fail(monkeypatch, engines, name, OperationalError("away"))
    runner.deliver([endpoint.pk])
    assert set(Delivery.objects.values_list("lease_token", "lapses", "attempts")) == {(None, 0, 0)}
    clock.advance(seconds=11)
    runner.deliver([endpoint.pk])
    until(lambda: len(receiver.requests) == 2)


def test_a_request_that_raises_keeps_no_place(
    pump: Callable[[], Engine], receiver: Receiver, until: Callable[..., None]
):
    """A transport never raises; should it all the same, its delivery has an outcome."""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)

    def explode(request: Any) -> Any:
        raise RuntimeError("not a result")

    receiver.script(endpoint, explode)
    runner.deliver([endpoint.pk])
    until(lambda: not engine()._batches)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.last_error) == ("pending", 1, "worker_lost")


def test_a_process_without_threads_to_spare_goes_on(
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    engine()
    left = [3]

    class Scarce(threading.Thread):
        def start(self) -> None:
            if left[0]:
                left[0] -= 1
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(senders.threading, "Thread", Scarce)
    runner.deliver([endpoint.pk])
    until(lambda: set(states().values()) == {"delivered"})
    assert not left[0]


@pytest.fixture
def both(configure: Callable[..., None]) -> None:
    """Take outbox entries from both databases."""
    configure(OUTBOX_DATABASES=["second", "default"])


@committed_in_both
@pytest.mark.usefixtures("both")
def test_an_outbox_database_that_is_down_holds_up_no_other(
    pump: Callable[[], Engine],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    until: Callable[..., None],
):
    endpoint, listener = EndpointFactory(), EndpointFactory(tenant_id=None, events=["webhook.disabled"])
    emit_for(endpoint)
    gone = EndpointFactory()
    waiting_at_gone = emit_for(gone)
    receiver.always(gone, reply(410))
    real = tickets.fan_out_batch

    def down(alias: str, outbox_alias: str) -> Any:
        if outbox_alias == "second":
            raise OperationalError("the server is down")
        return real(alias, outbox_alias)

    monkeypatch.setattr(tickets, "fan_out_batch", down)
    for _ in range(3):
        runner.fan_out()
        until(lambda: not engine()._batches)
    assert len(receiver.to(endpoint)) == 1
    assert receiver.ids(gone) == [waiting_at_gone[0].id]
    until(lambda: Delivery.objects.filter(endpoint=listener).exists())


def test_three_tries_of_an_entry_are_not_made_in_one_breath(
    pump: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
):
    """What ails it may pass: a host's own tenancy that does not answer for a second, say."""
    EndpointFactory(tenant_id="acme")
    good, bad = emit_for("acme", 2)
    real = fan_out.Item.of

    def of(entry: Any, *rest: Any) -> Any:
        if entry.event_id == bad.id:
            raise ValueError("a poisonous entry")
        return real(entry, *rest)

    monkeypatch.setattr(fan_out.Item, "of", of)
    runner.fan_out()
    assert OutboxEntry.objects.get(event_id=bad.id).failures == 1
    assert Delivery.objects.get().event.public_id == good.id


def test_the_pool_grows_while_requests_hang_and_shrinks_when_idle(
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    monkeypatch.setattr(senders, "IDLE_EXIT", 0.05)
    pool = Senders(2, 6)
    hanging, done = threading.Event(), []

    def threads() -> int:
        return senders.describe(pool)["threads"]

    def hang() -> None:
        hanging.wait(10)
        done.append(1)

    for _ in range(10):
        pool.submit(hang)
    pool.grow()
    assert threads() == 2
    until(lambda: pool.grow() or threads() == 6)
    time.sleep(0.1)
    pool.grow()
    assert threads() == 6
    hanging.set()
    until(lambda: len(done) == 10)
    until(lambda: threads() == 2)
    pool.close()
    until(lambda: threads() == 0)


def test_quick_tasks_need_few_threads(until: Callable[..., None]):
    pool = Senders(3, 50)
    done: list[int] = []
    for number in range(200):
        pool.submit(lambda number=number: done.append(number))
        pool.grow()
    until(lambda: len(done) == 200)
    assert senders.describe(pool)["threads"] <= 3
    pool.close()
    until(lambda: senders.describe(pool)["threads"] == 0)


def test_a_whole_worker_works_off_a_heap_in_spite_of_faults(
    worker: Worker, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
):
    endpoints = EndpointFactory.create_batch(3, tenant_id="acme")
    fail(monkeypatch, batches, "record", OperationalError("away"), times=3)
    for _ in range(4):
        emit_for("acme", 5)
    until(lambda: Delivery.objects.filter(state="delivered").count() == 60, 20)
    assert all(len(receiver.to(endpoint)) == 20 for endpoint in endpoints)
    assert receiver.post(receiver.requests[0]) is OK
    check_books()
