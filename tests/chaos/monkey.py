"""Breaks things at random and remembers what and when."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from django.db import connections

from scripts.services import Postgres, Redis
from tests.e2e.processes import Process
from tests.e2e.settings import ALIAS


@dataclass(slots=True)
class Monkey:
    """One act after another. `workers` are supervised, so what it kills comes back."""

    chance: random.Random
    workers: list[Process]
    emitters: list[Process]
    redis: Redis
    postgres: Postgres
    weights: Mapping[str, int] = field(default_factory=lambda: WEIGHTS)
    acts: Counter[str] = field(default_factory=Counter)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def act(self) -> None:
        """Do one thing and wait a moment."""
        names, weights = zip(*self.weights.items(), strict=True)
        name = self.chance.choices(names, weights)[0]
        started = time.monotonic()
        with suppress(ProcessLookupError):
            _ACTS[name](self)
        self.acts[name] += 1
        self.spans.append((started, time.monotonic()))
        time.sleep(self.chance.uniform(0.1, 1.0))

    def kill_child(self) -> None:
        """SIGKILL one pool process."""
        children = self.chance.choice(self.workers).children
        if children:
            os.kill(self.chance.choice(children), signal.SIGKILL)

    def kill_worker(self) -> None:
        """SIGKILL a whole worker."""
        worker = self.chance.choice(self.workers)
        for pid in [*worker.children, worker.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_main(self) -> None:
        """SIGKILL a worker's main process; its pool is orphaned."""
        self.chance.choice(self.workers).kill_main()

    def terminate(self) -> None:
        """SIGTERM a worker: a deploy."""
        self.chance.choice(self.workers).terminate()

    def nap(self) -> None:
        """Freeze a worker for less than a claim lasts."""
        self._freeze(self.chance.uniform(0.2, 1.5))

    def sleep(self) -> None:
        """Freeze a worker until its claims have lapsed."""
        self._freeze(self.chance.uniform(3.5, 6.0))

    def _freeze(self, seconds: float) -> None:
        worker = self.chance.choice(self.workers)
        worker.freeze()
        time.sleep(seconds)
        worker.thaw()

    def kill_emitter(self) -> None:
        """SIGKILL a web process."""
        self.chance.choice(self.emitters).kill_main()

    def flush_redis(self) -> None:
        """FLUSHALL."""
        self.redis.flush()

    def freeze_redis(self) -> None:
        """Freeze the broker."""
        with self.redis.frozen():
            time.sleep(self.chance.uniform(0.2, 2.0))

    def restart_redis(self) -> None:
        """Kill the broker and start an empty one."""
        self.redis.kill()
        time.sleep(self.chance.uniform(0.0, 1.0))
        self.redis.start()

    def crash_postgres(self) -> None:
        """Kill the database and let it recover."""
        self.postgres.kill()
        self.postgres.start()
        connections[ALIAS].close()


_ACTS: dict[str, Callable[[Monkey], None]] = {
    "kill_child": Monkey.kill_child,
    "kill_worker": Monkey.kill_worker,
    "kill_main": Monkey.kill_main,
    "terminate": Monkey.terminate,
    "nap": Monkey.nap,
    "sleep": Monkey.sleep,
    "kill_emitter": Monkey.kill_emitter,
    "flush_redis": Monkey.flush_redis,
    "freeze_redis": Monkey.freeze_redis,
    "restart_redis": Monkey.restart_redis,
    "crash_postgres": Monkey.crash_postgres,
}
WEIGHTS = {
    "kill_child": 6,
    "kill_worker": 2,
    "kill_main": 2,
    "terminate": 2,
    "nap": 3,
    "sleep": 3,
    "kill_emitter": 2,
    "flush_redis": 2,
    "freeze_redis": 1,
    "restart_redis": 1,
    "crash_postgres": 1,
}
# For a run of seconds: what is over quickly.
BRIEF = {"kill_child": 3, "kill_main": 1, "nap": 2, "kill_emitter": 1, "flush_redis": 1, "restart_redis": 1}
