"""The path in one process, without Celery and without a broker: what `webhooks_run` runs."""

import heapq
import threading
import time

from . import doorbell
from .engine import Engine, engine, shut_down
from .hints import Hints
from .tickets import Deliver, FanOut, Tick, Ticket

TICK_SECONDS = 5.0
DRAIN_SECONDS = 65.0


class LocalQueue:
    """Hands hints to this process's engine; later ones wait in a heap that `due` empties."""

    def __init__(self, pump: Engine) -> None:
        self._engine = pump
        self._lock = threading.Lock()
        self._later: list[tuple[float, tuple[int, ...]]] = []

    def publish(self, hints: Hints) -> None:
        """Turn hints into tickets."""
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


def run(stop: threading.Event, *, interval: float) -> bool:
    """Fan out, deliver and tick until `stop` is set; returns whether everything open was recorded.

    Args:
        stop: set it to end; open requests are waited for.
        interval: seconds between two looks at the outbox.
    """
    pump = engine()
    queue = LocalQueue(pump)
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
