"""Short transactions: repeated after a deadlock, a lock time-out or a lost connection, and only then."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
    connection,
    connections,
    transaction,
)

from webhooks_app.models import EndpointState, PipelineLock
from webhooks_app.pipeline import locks, record, transactions
from webhooks_app.pipeline.transactions import Tx, short

from .driving import (
    ALIAS,
    attempts_of,
    check_books,
    claim,
    committed,
    committed_in_both,
    in_threads,
    send,
    waiting,
)
from .factories import EndpointFactory
from .receiver import Receiver, reply

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat at once."""
    monkeypatch.setattr(transactions, "_PAUSES", (0, 0, 0, 0))


class Refusal(Exception):
    """An error of the driver with a code of PostgreSQL."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


def failing(times: int, error: Exception, cause: BaseException | None = None) -> Callable[[Tx], int]:
    calls = []

    def work(tx: Tx) -> int:
        calls.append(1)
        PipelineLock.objects.create(name=f"trace {len(calls)}")
        if len(calls) <= times:
            raise error from cause
        return len(calls)

    return work


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_passing_faults_are_repeated_from_the_start(state: str):
    """B133"""
    assert short(ALIAS, failing(4, OperationalError(), Refusal(state))) == 5
    assert list(PipelineLock.objects.values_list("name", flat=True)) == ["trace 5"]


def test_a_database_that_is_locked_is_asked_again():
    assert short(ALIAS, failing(2, OperationalError("database is locked"))) == 3


def test_repeating_has_an_end():
    with pytest.raises(OperationalError):
        short(ALIAS, failing(99, OperationalError(), Refusal("40P01")))
    assert not PipelineLock.objects.exists()


@pytest.mark.parametrize(
    "error", [DataError(), IntegrityError(), ProgrammingError(), OperationalError(), ValueError()]
)
def test_other_faults_are_not_repeated(error: Exception):
    work = failing(1, error, Refusal("22001"))
    with pytest.raises(type(error)):
        short(ALIAS, work)
    assert not PipelineLock.objects.exists()


def test_a_fault_leaves_the_callers_transaction_usable():
    with pytest.raises(DataError):
        short(ALIAS, failing(1, DataError()))
    PipelineLock.objects.create(name="after")
    assert PipelineLock.objects.count() == 1


def end_session(pid: int) -> None:
    with connections["second"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])


def my_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


@committed_in_both
@pytest.mark.pg
@pytest.mark.parametrize("when", ["before", "within"])
def test_a_lost_connection_is_dialled_anew(when: str):
    calls = []

    def work(tx: Tx) -> int:
        calls.append(1)
        if when == "within" and len(calls) == 1:
            end_session(my_pid())
        tx.execute("SELECT 1")
        return int(tx.row()[0])

    if when == "before":
        end_session(my_pid())
    assert short(ALIAS, work) == 1


@committed_in_both
@pytest.mark.pg
def test_outcomes_survive_a_connection_lost_while_they_are_recorded(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.script(endpoint, reply(500))
    write = send(claim(endpoint))
    real, lost = record.insert_attempts, []

    def lose_once(*args: Any) -> None:
        if not lost:
            lost.append(1)
            end_session(my_pid())
        real(*args)

    monkeypatch.setattr(record, "insert_attempts", lose_once)
    assert len(write().attempts) == 1
    assert len(attempts_of(delivery)) == 1
    check_books()


@committed
@pytest.mark.pg
def test_a_real_deadlock_is_repeated():
    """B133"""
    PipelineLock.objects.bulk_create([PipelineLock(name=name, value=0) for name in "ab"])
    meet = threading.Barrier(2)

    def bump(names: str) -> int:
        calls = []

        def work(tx: Tx) -> int:
            calls.append(1)
            for place, name in enumerate(names):
                tx.execute("UPDATE webhooks_app_pipelinelock SET value = value + 1 WHERE name = %s", [name])
                if place == 0 and len(calls) == 1:
                    meet.wait(5)
            return len(calls)

        return short(ALIAS, work)

    assert max(in_threads(lambda: bump("ab"), lambda: bump("ba"))) > 1
    assert set(PipelineLock.objects.values_list("value", flat=True)) == {2}


@committed
@pytest.mark.pg
def test_a_lock_is_not_waited_for_without_end():
    endpoint = EndpointFactory()
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            EndpointState.objects.select_for_update().get(pk=endpoint.pk)
            locked.set()
            done.wait(20)

    def bump() -> float:
        locked.wait(5)
        started = time.monotonic()
        with pytest.raises(OperationalError):
            transactions._once(
                ALIAS,
                lambda tx: EndpointState.objects.filter(pk=endpoint.pk).update(window=9),
                durable=True,
                brief=False,
                skip=False,
            )
        done.set()
        return time.monotonic() - started

    _, took = in_threads(hold, bump)
    assert 1.5 < took < 4


@pytest.mark.pg
def test_the_limits_of_a_short_transaction():
    """Local to the transaction: behind a pooler, a setting of the session would leak to strangers."""
    names = ("lock_timeout", "idle_in_transaction_session_timeout")

    def limits(tx: Tx) -> list[str]:
        return [setting(tx, name) for name in names]

    def setting(tx: Tx, name: str) -> str:
        tx.execute(f"SHOW {name}")
        return str(tx.row()[0])

    assert short(ALIAS, limits) == ["2s", "10s"]


@committed
@pytest.mark.pg
def test_the_limits_end_with_the_transaction():
    short(ALIAS, lambda tx: None)
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


def test_positions_are_drawn_once_each():
    def draw(tx: Tx) -> int:
        return locks.next_positions(tx.cursor, 5)

    first = short(ALIAS, draw)
    assert short(ALIAS, draw) == first + 5


@committed
@pytest.mark.pg
def test_a_connection_that_the_driver_closed_is_dialled_anew():
    calls = []

    def work(tx: Tx) -> int:
        calls.append(1)
        if len(calls) == 1:
            connection.close()
            raise InterfaceError("connection already closed")
        return len(calls)

    assert short(ALIAS, work) == 2
