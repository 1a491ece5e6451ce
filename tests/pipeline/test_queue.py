"""Where hints go: messages for Celery, work at once for tests, tickets for `webhooks_run`."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import celery
import pytest
from django.db import transaction
from kombu.exceptions import OperationalError

from tests.celeryapp import app
from webhooks_app import beat_schedule
from webhooks_app.actions.actor import operator
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.destinations import https
from webhooks_app.events import emit
from webhooks_app.models import Delivery
from webhooks_app.pipeline import doorbell, local, queue
from webhooks_app.pipeline.hints import WAKE_SIZE, Hints

from .driving import check_books, committed, in_threads
from .factories import EndpointFactory, emit_for
from .receiver import OK, Receiver, reply


def hints(
    *endpoint_ids: int, fan_out: bool = False, later: dict[int, float] | None = None, jobs: bool = False
) -> Hints:
    made = Hints()
    made.add(fan_out=fan_out, endpoint_ids=endpoint_ids, later=later, jobs=jobs)
    return made


@pytest.fixture
def messages() -> Iterator[Callable[[], list[Any]]]:
    """Return what lies in the broker's queue, raw."""
    with app.connection_for_read() as connection:
        box = connection.SimpleQueue("webhooks", no_ack=True)
        box.clear()

        def read() -> list[Any]:
            return [box.get_nowait() for _ in range(box.qsize())]

        yield read
        box.clear()
        box.close()


def test_messages_name_the_task_and_carry_pointers_only(messages: Callable[[], list[Any]]):
    """B058"""
    queue.CeleryQueue().publish(hints(*range(10**12, 10**12 + 100), fan_out=True))
    fan_out, deliver = messages()
    assert fan_out.headers["task"] == "webhooks_app.fan_out"
    assert deliver.headers["task"] == "webhooks_app.deliver"
    assert json.loads(deliver.body)[0] == [list(range(10**12, 10**12 + 100))]
    assert len(deliver.body) < 2_000
    assert fan_out.headers["ignore_result"]


@pytest.mark.parametrize("bulk", [None, "webhooks.bulk"])
def test_jobs_are_one_message_in_the_bulk_queue(
    bulk: str | None, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    configure(BULK_QUEUE_NAME=bulk)
    sent: list[tuple[str, Any, Any]] = []
    monkeypatch.setattr(
        type(app), "send_task", lambda _, name, args, **to: sent.append((name, args, to["queue"]))
    )
    queue.CeleryQueue().publish(hints(jobs=True))
    assert sent == [("webhooks_app.run_jobs", (), bulk or "webhooks")]


def test_a_hundred_endpoints_a_message(messages: Callable[[], list[Any]]):
    queue.CeleryQueue().publish(hints(*range(250, 0, -1)))
    lists = [json.loads(message.body)[0][0] for message in messages()]
    assert [len(each) for each in lists] == [WAKE_SIZE, WAKE_SIZE, 50]
    assert [key for each in lists for key in each] == list(range(1, 251))


def test_hints_expire_and_wait_for_seconds_only(messages: Callable[[], list[Any]]):
    """B001, B003"""
    queue.CeleryQueue().publish(hints(1, later={2: 3.0, 3: 3.04, 4: 0.01}))
    now = datetime.now(UTC)
    found = {tuple(json.loads(message.body)[0][0]): message.headers for message in messages()}
    assert set(found) == {(1,), (2,), (3,), (4,)}
    assert found[(1,)]["eta"] is None
    for keys, headers in found.items():
        expires = datetime.fromisoformat(headers["expires"]) - now
        assert timedelta(seconds=55) < expires < timedelta(seconds=70), keys
    waits = {keys[0]: datetime.fromisoformat(found[keys]["eta"]) - now for keys in found if keys != (1,)}
    assert waits[2] >= timedelta(seconds=2.9)
    # Never early: a wake that comes before its time finds nothing.
    assert timedelta(seconds=2.95) < waits[3] < timedelta(seconds=3.3)
    assert waits[4] < timedelta(seconds=0.3)


def test_nothing_to_say_is_no_message(messages: Callable[[], list[Any]]):
    queue.CeleryQueue().publish(Hints())
    assert messages() == []


def test_after_a_failure_it_dials_anew(messages: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch):
    sender = queue.CeleryQueue()
    sender.publish(hints(fan_out=True))
    first = sender._producer
    with monkeypatch.context() as patch:
        patch.setattr(type(app), "send_task", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sender.publish(hints(fan_out=True))
    sender.publish(hints(fan_out=True))
    assert sender._producer is not first
    assert len(messages()) == 2


@pytest.mark.parametrize("transport", ["redis", "rediss", "amqp"])
def test_a_frozen_redis_holds_the_publisher_for_a_moment_only(transport: str):
    """B011: the broker's options are the host's, so the sender brings its own."""
    asked: list[dict[str, Any]] = []

    class App:
        class conf:
            broker_transport_options = {"socket_timeout": 120, "visibility_timeout": 9}

        def connection_for_write(self, **options: Any) -> Any:
            asked.append(options)
            return type("Connection", (), {"transport_cls": transport})

    queue._connection(App())
    options = asked[-1]["transport_options"]
    assert asked[-1]["connect_timeout"] <= 0.5
    assert options["visibility_timeout"] == 9
    if transport.startswith("redis"):
        assert max(options["socket_timeout"], options["socket_connect_timeout"]) <= 0.5
        assert not options["retry_on_timeout"]


@pytest.fixture
def other_app(monkeypatch: pytest.MonkeyPatch) -> celery.Celery:
    """Make another Celery app the current one."""
    other = celery.Celery("other", set_as_current=False)
    monkeypatch.setattr(celery, "current_app", other)
    return other


def test_reaching_the_broker():
    queue.ping(1.0)


def test_a_broker_that_is_not_there(other_app: celery.Celery):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        other_app.conf.broker_url = f"redis://127.0.0.1:{closed.getsockname()[1]}/0"
        with pytest.raises(OperationalError):
            queue.ping(0.5)


def test_the_hosts_periodic_tasks(other_app: celery.Celery):
    other_app.conf.beat_schedule = beat_schedule()
    assert queue.scheduled_tasks() == {
        "webhooks_app.tick",
        "webhooks_app.run_jobs",
        "webhooks_app.prune",
    }
    other_app.conf.beat_schedule = {}
    assert queue.scheduled_tasks() == frozenset()
    other_app.conf.beat_scheduler = "django_celery_beat.schedulers:DatabaseScheduler"
    assert queue.scheduled_tasks() is None


def test_merging_forgets_nothing():
    both = hints(1, 2, later={5: 1.0}, jobs=True)
    both.merge(hints(2, 3, fan_out=True, later={6: 2.0}))
    assert (both.fan_out, list(both.endpoint_ids), both.later) == (True, [1, 2, 3], {5: 1.0, 6: 2.0})
    assert both.jobs
    assert hints(jobs=True)
    assert hints(later={1: 1.0})
    assert not Hints()


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]) -> None:
    """Work at once in the caller's thread, as the setting QUEUE `inline` does."""
    configure(QUEUE="inline")
    bell = doorbell.Doorbell(queue.make_queue())
    monkeypatch.setattr(doorbell, "bell", lambda: bell)


@committed
@pytest.mark.usefixtures("inline")
def test_inline_everything_is_done_when_the_commit_returns(receiver: Receiver):
    endpoint, listener = EndpointFactory(), EndpointFactory(tenant_id=None, events=["webhook.disabled"])
    receiver.script(endpoint, OK, reply(410))
    with transaction.atomic():
        emit("order.paid", {}, tenant=endpoint.tenant_id)
        assert not receiver.requests
    assert len(receiver.to(endpoint)) == 1
    emit_for(endpoint)
    assert len(receiver.to(endpoint)) == 2
    assert b"webhook.disabled" in receiver.to(listener)[0].body
    check_books()


@committed
@pytest.mark.usefixtures("inline")
def test_inline_from_two_threads(receiver: Receiver):
    """B136"""
    endpoint = EndpointFactory()

    def write() -> None:
        for _ in range(10):
            emit_for(endpoint)

    in_threads(write, write)
    assert Delivery.objects.filter(state="delivered").count() == 20
    assert len(set(receiver.ids())) == 20


@committed
@pytest.mark.usefixtures("inline")
def test_inline_jobs_are_done_and_what_they_queue_is_sent_when_the_commit_returns(receiver: Receiver):
    endpoint = EndpointFactory(policy_overrides={"waits": []})
    receiver.script(endpoint, reply(500))
    emit_for(endpoint)
    assert Delivery.objects.get().state == "exhausted"
    with transaction.atomic():
        job = bulk_retry(operator("command", "test"))
        assert len(receiver.requests) == 1
    job.refresh_from_db()
    assert (job.state, job.done) == ("succeeded", 1)
    assert Delivery.objects.get().state == "delivered"


@committed
@pytest.mark.usefixtures("inline")
def test_inline_may_emit_from_a_receiver(receiver: Receiver):
    """What follows from the work is queued behind it, however deep."""
    first, second = EndpointFactory(), EndpointFactory()

    def answer(request: Any) -> Any:
        emit_for(second)
        return OK

    receiver.script(first, answer)
    emit_for(first)
    assert len(receiver.to(second)) == 1


@pytest.mark.parametrize("kind", ["celery", "inline", "poll"])
def test_the_setting_names_the_queue(kind: str, configure: Callable[..., None]):
    configure(QUEUE=kind)
    assert type(queue.make_queue()).__name__.lower() == f"{kind}queue"
    queue.PollQueue().publish(hints(1, fan_out=True))


@committed
def test_one_process_runs_it_all(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None], pump: Any
):
    """B136: `webhooks_run`, without Celery and a broker."""
    monkeypatch.undo()
    monkeypatch.setattr(https, "transport", lambda: receiver)
    monkeypatch.setattr(doorbell, "_bell", None)
    endpoint = EndpointFactory(policy_overrides={"waits": [1], "jitter": 0})
    receiver.script(endpoint, reply(500))
    stop, ended = threading.Event(), []
    thread = threading.Thread(target=lambda: ended.append(local.run(stop, interval=0.01)))
    thread.start()
    emit_for(endpoint, 3)
    until(lambda: Delivery.objects.filter(state="delivered").count() == 3, 15)
    stop.set()
    thread.join(10)
    assert ended == [True]
    assert len(receiver.requests) == 4
    check_books()


def test_a_job_wakes_whoever_does_jobs_in_this_process():
    rung = threading.Event()
    box = local.LocalQueue(object(), rung)  # type: ignore[arg-type]
    box.publish(hints())
    assert not rung.is_set()
    box.publish(hints(jobs=True))
    assert rung.is_set()


@pytest.mark.django_db
def test_later_wakes_wait_their_time(monkeypatch: pytest.MonkeyPatch):
    submitted: list[Any] = []

    class Pump:
        def submit(self, ticket: Any) -> None:
            submitted.append(ticket)

    now = [100.0]
    monkeypatch.setattr(local.time, "monotonic", lambda: now[0])
    box = local.LocalQueue(Pump())  # type: ignore[arg-type]
    box.publish(hints(later={1: 2.0, 2: 1.0}))
    box.due()
    assert not submitted
    now[0] = 101.1
    box.due()
    assert [ticket._endpoint_ids for ticket in submitted] == [[2]]
    now[0] = 102.1
    box.due()
    assert len(submitted) == 2
