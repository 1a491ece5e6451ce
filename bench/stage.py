"""One isolated measurement: a database, an empty broker and a warmed-up worker of its own."""

import contextlib
import itertools
import os
import time
from collections.abc import Callable
from typing import Any, Self

from django.db import connection

from bench import filling, profile
from bench.processes import Worker
from bench.servers import TEMPLATE, Servers
from bench.usage import Meter
from webhooks_app.models import Delivery, OutboxEntry
from webhooks_app.pipeline import doorbell, queue

PATIENCE = 5.0
GIVE_UP = 40.0
POLL = 0.02
_numbers = itertools.count(1)


class BenchError(RuntimeError):
    """A measurement that cannot be finished; the message holds what the worker said last."""


class Stage:
    """Use as a context manager: inside, the database is there and `connection` leads to it.

    Fill it, `start_worker()`, commit what is to be measured, `measure(...)`.
    """

    def __init__(self, servers: Servers, *, template: str = TEMPLATE, profile: bool = False) -> None:
        self.servers = servers
        self._profile = profile
        self.receiver = servers.receiver
        self._template = template
        self._name = f"bench_{next(_numbers)}"
        self._worker: Worker | None = None
        self.ticks = 0

    def __enter__(self) -> Self:
        use_database(self._template)
        self.servers.copy_database(self._template, self._name)
        use_database(self._name)
        self.servers.redis.flush()
        self.receiver.reset()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._worker is not None:
            self._worker.close()
        connection.close()
        self.servers.drop_database(self._name)

    @property
    def url(self) -> str:
        """The database of this measurement."""
        return self.servers.postgres.url_of(self._name)

    @property
    def worker(self) -> Worker:
        """The worker under measurement."""
        if self._worker is None:
            raise BenchError("start_worker() comes first")
        return self._worker

    def start_worker(self) -> None:
        """Start a worker and have each of its processes deliver something."""
        self._worker = Worker(self.url).start()
        warm = self.receiver.endpoint("warm-up")
        filling.add_endpoints([("warm-up", warm)] * 20)
        for _ in range(10):
            filling.commit_events(["warm-up"] * 20)
            self.ring()
            self.wait(self._is_idle)
            if self._worker.are_warm():
                break
        filling.analyze()
        self.servers.checkpoint()
        self.receiver.reset()

    def keep_as(self, name: str) -> None:
        """Keep what was filled in as a template for other stages."""
        connection.close()
        self.servers.copy_database(self._name, name)

    def ring(self) -> None:
        """Wake the fan-out, as the commit of an event does."""
        doorbell.ring(fan_out=True)

    def meter(self) -> Meter:
        """Return a meter of all processes, started now."""
        pids = {
            "product": self.worker.pid,
            "postgres": self.servers.postgres.pid,
            "redis": self.servers.redis.pid,
            "receiver": self.receiver.pid,
        }
        return Meter(pids)

    def sampled(self) -> contextlib.AbstractContextManager[None]:
        """Profile the worker during the block, if the command line asks for it."""
        return profile.sampled(self.worker.children) if self._profile else contextlib.nullcontext()

    def measure(self, deliveries: int) -> dict[str, Any]:
        """Wake the worker for what is committed; return the figures once all of it is recorded."""
        before = self.receiver.count()
        with self.sampled():
            meter, started = self.meter(), time.monotonic()
            self.ring()
            self.wait(lambda: self.receiver.count() - before >= deliveries, progress=self.receiver.count)
            self.wait(self._is_idle)
            figures = per_delivery(meter, deliveries, time.monotonic() - started)
        posts = self.receiver.count() - before
        return {**figures, "posts": posts, "ticks_needed": self.ticks}

    def wait(self, done: Callable[[], bool], *, progress: Callable[[], int] | None = None) -> None:
        """Wait until `done()`. Where nothing moves for 5 s a tick is sent, and counted in `ticks`.

        Raises:
            BenchError: nothing has moved for 40 s, or the worker died.
        """
        moved_at = ticked_at = time.monotonic()
        last = -1
        while not done():
            now = time.monotonic()
            current = progress() if progress else last
            if current != last:
                last, moved_at, ticked_at = current, now, now
            if now - ticked_at > PATIENCE:
                self.ticks, ticked_at = self.ticks + 1, now
                send_tick()
            if now - moved_at > GIVE_UP or not self.worker.running:
                raise BenchError(f"no progress at {last}; the worker says:\n{self.worker.tail(40)}")
            time.sleep(POLL)

    def _is_idle(self) -> bool:
        # Order matters: what leaves the outbox is a delivery from then on.
        if OutboxEntry.objects.filter(dispatched_at=None, set_aside_at=None).exists():
            return False
        return not Delivery.objects.filter(state="pending").exists()


def use_database(name: str) -> None:
    """Let Django's connection lead to another database of the same server."""
    connection.close()
    connection.settings_dict["NAME"] = name


def send_tick() -> None:
    """Do what Celery beat does every 5 s."""
    from celery import current_app

    current_app.send_task(queue.TICK, queue="webhooks")


def per_delivery(meter: Meter, deliveries: int, seconds: float) -> dict[str, Any]:
    """Return rate and CPU figures of a span of `seconds`."""
    used = meter.used()
    others = used.pop("others")
    left = max(0.01, (os.cpu_count() or 1) * seconds - others)
    return {
        "deliveries": deliveries,
        "seconds": round(seconds, 2),
        "deliveries_per_s": round(deliveries / seconds),
        "cpu_us_per_delivery": round(used["product"] / deliveries * 1e6),
        "pg_cpu_us_per_delivery": round(used["postgres"] / deliveries * 1e6),
        "redis_cpu_us_per_delivery": round(used["redis"] / deliveries * 1e6),
        "receiver_cpu_us_per_delivery": round(used["receiver"] / deliveries * 1e6),
        "other_cores": round(others / seconds, 2),
        # Near 1: there was no more CPU to have. Clearly below: the product waited for something else.
        "share_of_free_cpu": round(sum(used.values()) / left, 2),
    }
