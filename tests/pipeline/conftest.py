"""Fixtures of the path's tests: hints that are kept, a clock to move, a receiver that answers by script."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from webhooks_app.destinations import https
from webhooks_app.pipeline import clock as path_clock
from webhooks_app.pipeline import doorbell, engine, fan_out, pace
from webhooks_app.pipeline.hints import Hints
from webhooks_app.pipeline.tickets import Deliver, FanOut

from .receiver import Receiver


class Bell:
    """Stands in for the process's doorbell: keeps every hint instead of publishing it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = Hints()

    def ring(self, hints: Hints) -> None:
        with self._lock:
            self._kept.merge(hints)

    def take(self) -> Hints:
        """Return the hints kept so far, and forget them."""
        with self._lock:
            kept, self._kept = self._kept, Hints()
        return kept


class Worker(Bell):
    """A doorbell and its worker in one: what is rung goes straight to the process's engine."""

    def ring(self, hints: Hints) -> None:
        super().ring(hints)
        pump = engine.engine()
        if hints.fan_out:
            pump.submit(FanOut())
        for ids, countdown in hints.wakes():
            if countdown is None:
                pump.submit(Deliver(ids))


class Clock:
    """Moves the path's time ahead of the database's."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self, moment: datetime) -> datetime:
        return moment + self.ahead

    def advance(self, **amount: float) -> None:
        """Move on by `days=`, `hours=`, `seconds=`."""
        self.ahead += timedelta(**amount)


@pytest.fixture(autouse=True)
def bell(monkeypatch: pytest.MonkeyPatch) -> Bell:
    """Keep hints; nothing reaches a broker."""
    kept = Bell()
    monkeypatch.setattr(doorbell, "bell", lambda: kept)
    return kept


@pytest.fixture(autouse=True)
def from_the_start() -> Iterator[None]:
    """Let no test's tenants be in the middle of their turns for the next one."""
    yield
    fan_out._after.clear()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """Let hints go to an engine with threads, as in a worker process; drained after the test."""
    running = Worker()
    monkeypatch.setattr(doorbell, "bell", lambda: running)
    yield running
    drain()


@pytest.fixture
def pump() -> Iterator[Callable[[], engine.Engine]]:
    """Return the process's engine, made on first use; drained after the test."""
    yield engine.engine
    drain()


def drain() -> None:
    """End the process's engine; the next use makes another."""
    ended = engine.shut_down(10)
    engine._engine = None
    pace.reset()
    assert ended, "the engine did not end"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Move the path's clock."""
    moved = Clock()
    monkeypatch.setattr(path_clock, "translate", moved)
    return moved


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """Answer every request by script, without a network."""
    scripted = Receiver()
    monkeypatch.setattr(https, "transport", lambda: scripted)
    return scripted


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Change values of the WEBHOOKS setting for this test."""

    def change(**values: Any) -> None:
        settings.WEBHOOKS = {**settings.WEBHOOKS, **values}

    return change


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait for a condition, at most some seconds."""

    def wait(condition: Callable[[], object], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.005)

    return wait
