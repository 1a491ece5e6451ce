"""The path in one process, without Celery and without a broker: what `webhooks_run` runs."""

import heapq
import threading
import time

from . import doorbell
from .engine import Engine, engine, shut_down
from .hints import Hints
from .tickets import Deliver, FanOut, Tick, Ticket

# What other processes make due, a replay or a resume, is told to nobody here: only a look finds it.
TICK_SECONDS = 1.0
DRAIN_SECONDS = 65.0


class LocalQueue:
    """Hands hints to this process's engine; later ones wait in a heap that `due` empties.

    `jobs` is set when there are jobs to do, which is no work for the engine.
    """

    def __init__(self, pump: Engine, jobs: threading.Event | None = None) -> None:
        self._engine = pump
        self._jobs = jobs or threading.Event()
        self._lock = threading.Lock()
        self._later: list[tuple[float, tuple[int, ...]]] = []

    def publish(self, hints: Hints) -> None:
        """Turn hints into tickets."""
        if hints.jobs:
            self._jobs.set()
        if hints.fan_out:
            self._engine.submit(FanOut())
        for ids, _ in hints.slow_wakes():
            self._engine.submit(Deliver(ids, slow=True))
        for ids, countdown in hints.wakes():
            if countdown is None:
                self._engine.submit(Deliver(ids))
            else:
                with self._lock:
                    heapq.heappush(self._later, (time.monotonic() + countdown, tuple(ids)))

    def due(self) -> None:
        """Submit the wakes whose time has come."""
        now = time.monotonic()
        with self._lock:
            while self._later and self._later[0][0] <= now:
                self._engine.submit(Deliver(list(heapq.heappop(self._later)[1])))


def run(stop: threading.Event, *, interval: float, jobs: threading.Event | None = None) -> bool:
    """Fan out, deliver and tick until `stop` is set; returns whether everything open was recorded.

    Args:
        stop: set it to end; open requests are waited for.
        interval: seconds between two looks at the outbox.
        jobs: is set when this process has begun a job; who does it is the caller's business.
    """
    pump = engine()
    queue = LocalQueue(pump, jobs)
    doorbell.install(queue)
    next_tick = 0.0
    while not stop.is_set():
        _do(pump, FanOut())
        if time.monotonic() >= next_tick:
            _do(pump, Tick())
            next_tick = time.monotonic() + TICK_SECONDS
        queue.due()
        stop.wait(interval)
    return shut_down(DRAIN_SECONDS)


def _do(pump: Engine, ticket: Ticket) -> None:
    pump.submit(ticket)
    ticket.wait()
