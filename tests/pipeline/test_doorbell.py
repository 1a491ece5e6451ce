"""The doorbell: a caller goes on at once, whatever the broker does."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from django.db import transaction

from webhooks_app.events import emit
from webhooks_app.pipeline import doorbell
from webhooks_app.pipeline.hints import MAX_WAITING, Hints

from .driving import committed


class FakeQueue:
    """A broker that notes what it is sent, and fails or hangs when told to."""

    def __init__(self) -> None:
        self.published: list[Hints] = []
        self.times: list[float] = []
        self.error: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def publish(self, hints: Hints) -> None:
        self.times.append(time.monotonic())
        self.open.wait(10)
        if self.error is not None:
            raise self.error
        self.published.append(hints)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeQueue]:
    fake = FakeQueue()
    monkeypatch.setattr(doorbell, "BACKOFF", 0.02)
    yield fake
    fake.open.set()


def bell_of(broker: FakeQueue) -> doorbell.Doorbell:
    return doorbell.Doorbell(broker)


def hints(*endpoint_ids: int, fan_out: bool = False, later: dict[int, float] | None = None) -> Hints:
    made = Hints()
    made.add(fan_out=fan_out, endpoint_ids=endpoint_ids, later=later)
    return made


def test_a_ring_is_published(broker: FakeQueue):
    bell = bell_of(broker)
    bell.ring(hints(3, fan_out=True))
    assert bell.flush(5)
    assert [(each.fan_out, list(each.endpoint_ids)) for each in broker.published] == [(True, [3])]


def test_rings_that_wait_are_merged(broker: FakeQueue, until: Callable[..., None]):
    bell = bell_of(broker)
    broker.open.clear()
    bell.ring(hints(1))
    until(lambda: broker.times)
    for number in range(100):
        bell.ring(hints(number % 7, fan_out=number == 50))
    broker.open.set()
    assert bell.flush(5)
    first, second = broker.published
    assert list(first.endpoint_ids) == [1]
    assert sorted(second.endpoint_ids) == list(range(7))
    assert second.fan_out


def test_there_is_a_gap_between_two_publishings(broker: FakeQueue, until: Callable[..., None]):
    bell = bell_of(broker)
    for number in range(20):
        bell.ring(hints(number))
        time.sleep(0.001)
    assert bell.flush(5)
    gaps = [after - before for before, after in pairwise(broker.times)]
    assert min(gaps) >= doorbell.GAP * 0.9


@pytest.mark.parametrize("trouble", ["down", "frozen"])
def test_the_caller_goes_on_at_once(broker: FakeQueue, trouble: str):
    """B011"""
    bell = bell_of(broker)
    broker.error = ConnectionError("down") if trouble == "down" else None
    if trouble == "frozen":
        broker.open.clear()
    started = time.monotonic()
    for number in range(200):
        bell.ring(hints(number))
    assert time.monotonic() - started < 0.2
    assert not bell.flush(0.05)
    broker.error = None
    broker.open.set()
    assert bell.flush(5)
    assert sorted({key for each in broker.published for key in each.endpoint_ids}) == list(range(200))


def test_a_failed_publishing_keeps_the_hints_and_warns(broker: FakeQueue, caplog: pytest.LogCaptureFixture):
    bell = bell_of(broker)
    broker.error = ConnectionError("amqp://user:password@host")
    bell.ring(hints(1, later={2: 3.0}))
    assert not bell.flush(0.05)
    broker.error = None
    assert bell.flush(5)
    assert list(broker.published[0].endpoint_ids) == [1]
    assert broker.published[0].later == {2: 3.0}
    assert "ConnectionError" in caplog.text
    assert "password" not in caplog.text


def test_a_dead_broker_is_asked_again_after_a_pause_only(broker: FakeQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doorbell, "BACKOFF", 0.1)
    bell = bell_of(broker)
    broker.error = ConnectionError()
    for number in range(50):
        bell.ring(hints(number))
        time.sleep(0.005)
    tries = list(broker.times)
    broker.error = None
    assert bell.flush(5)
    assert len(tries) > 1
    assert min(after - before for before, after in pairwise(tries)) >= 0.1


def test_waiting_hints_have_a_limit(broker: FakeQueue):
    bell = bell_of(broker)
    broker.open.clear()
    for start in range(0, 3 * MAX_WAITING, 1_000):
        bell.ring(hints(*range(start, start + 1_000)))
    broker.open.set()
    assert bell.flush(5)
    assert sum(len(each.endpoint_ids) for each in broker.published) <= 2 * MAX_WAITING


def test_without_threads_the_caller_publishes(broker: FakeQueue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doorbell, "threads_work", lambda: False)
    before = threading.active_count()
    bell_of(broker).ring(hints(1))
    assert len(broker.published) == 1
    assert threading.active_count() == before


def test_without_threads_a_dead_broker_is_left_alone_for_a_while(
    broker: FakeQueue, monkeypatch: pytest.MonkeyPatch
):
    """B011"""
    monkeypatch.setattr(doorbell, "threads_work", lambda: False)
    monkeypatch.setattr(doorbell, "SILENCE", 0.2)
    bell = bell_of(broker)
    broker.error = ConnectionError()
    for number in range(50):
        bell.ring(hints(number))
    assert len(broker.times) == 1
    broker.error = None
    deadline = time.monotonic() + 5
    while not broker.published and time.monotonic() < deadline:
        bell.ring(hints(50))
        time.sleep(0.01)
    assert broker.times[1] - broker.times[0] >= 0.2
    assert sorted(broker.published[0].endpoint_ids) == list(range(51))


def test_where_no_thread_can_start_the_caller_publishes(broker: FakeQueue, monkeypatch: pytest.MonkeyPatch):
    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    bell = bell_of(broker)
    with monkeypatch.context() as patch:
        patch.setattr(doorbell.threading, "Thread", Refused)
        bell.ring(hints(1))
    assert [list(each.endpoint_ids) for each in broker.published] == [[1]]
    bell.ring(hints(2))
    assert bell.flush(5)
    assert len(broker.published) == 2


def test_silence_lasts_five_seconds():
    assert doorbell.SILENCE == 5.0
    assert doorbell.EXIT_PATIENCE <= 0.5


@pytest.mark.parametrize(
    ("options", "works"), [(None, True), ({}, False), ({"enable-threads": True}, True), ({"x": 1}, False)]
)
def test_threads_need_an_option_of_uwsgi(
    options: dict[str, object] | None, works: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delitem(sys.modules, "uwsgi", raising=False)
    if options is not None:
        monkeypatch.setitem(sys.modules, "uwsgi", type("uwsgi", (), {"opt": options}))
    assert doorbell.threads_work() is works


@committed
@pytest.mark.parametrize("trouble", ["down", "frozen"])
def test_emit_and_commit_do_not_wait_for_the_broker(
    trouble: str, broker: FakeQueue, monkeypatch: pytest.MonkeyPatch
):
    """B011"""
    bell = bell_of(broker)
    monkeypatch.setattr(doorbell, "bell", lambda: bell)
    broker.error = ConnectionError() if trouble == "down" else None
    if trouble == "frozen":
        broker.open.clear()
    for _ in range(3):
        started = time.monotonic()
        with transaction.atomic():
            emit("order.paid", {})
        assert time.monotonic() - started < 0.4
    broker.error = None
    broker.open.set()
    assert bell.flush(5)
    assert any(each.fan_out for each in broker.published)


@committed
def test_ring_on_commit_outside_a_transaction_rings_at_once(bell):
    doorbell.ring_on_commit("default", endpoint_ids=[5])
    assert list(bell.take().endpoint_ids) == [5]


def test_another_queue_may_be_installed(monkeypatch: pytest.MonkeyPatch, broker: FakeQueue):
    monkeypatch.undo()
    before = doorbell._bell
    try:
        doorbell.install(broker)
        doorbell.ring(fan_out=True)
        assert doorbell.bell().flush(5)
    finally:
        doorbell._bell = before
    assert len(broker.published) == 1


_SCRIPT = """
import atexit, os, threading, time
times = []
atexit.register(lambda: print("exit took", time.monotonic() - times[0]))
from webhooks_app.pipeline import doorbell
atexit.register(lambda: times.append(time.monotonic()))

class Queue:
    def publish(self, hints):
        os.write(1, b"published by %d\\n" % os.getpid())

doorbell.make_queue = Queue
{body}
"""

_FORK = """
doorbell.ring(fan_out=True)
doorbell.bell().flush(5)
parent = doorbell.bell()
child = os.fork()
if not child:
    assert doorbell.bell() is not parent
    doorbell.ring(fan_out=True)
    ok = doorbell.bell().flush(5)
    os._exit(0 if ok else 1)
status = os.waitpid(child, 0)[1]
print("child", child, "parent", os.getpid(), "status", status, flush=True)
"""

_EXIT = """
doorbell.ring(fan_out=True)
"""

_FROZEN = """
class Frozen:
    def publish(self, hints):
        threading.Event().wait()

doorbell.make_queue = Frozen
doorbell.ring(fan_out=True)
"""


def run_script(body: str) -> list[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _SCRIPT.format(body=body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.splitlines()


def test_after_a_fork_the_child_has_a_bell_of_its_own():
    *published, told, _ = run_script(_FORK)
    _, child, _, parent, _, status = told.split()
    assert status == "0"
    assert sorted(published) == sorted([f"published by {parent}", f"published by {child}"])


def test_what_was_rung_last_is_published_at_exit():
    published, _ = run_script(_EXIT)
    assert published.startswith("published by")


def test_a_frozen_broker_holds_up_the_exit_for_half_a_second_at_most():
    took = float(run_script(_FROZEN)[-1].rpartition(" ")[2])
    assert 0.4 < took < 1.5
