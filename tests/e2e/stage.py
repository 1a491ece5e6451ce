"""The stage of one test: a database, a broker, a receiver, and the processes it starts."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.db import transaction

from scripts.processes import wait_until
from tests.e2e import invariants
from tests.e2e.broker import Broker, Ticker
from tests.e2e.choice import Choice
from tests.e2e.processes import Beat, Process, Worker
from tests.e2e.receiver import Receiver
from tests.e2e.settings import ALIAS
from webhooks_app import emit, emit_many
from webhooks_app.actions.actor import operator
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.models import Endpoint

# A claim lasts the total time-out and two seconds, so that one lapses while a test looks on.
SHORT: dict[str, Any] = {
    "webhooks_app.pipeline.lease:MARGIN": 2.0,
    "webhooks_app.pipeline.sending:SPARE_SECONDS": 0.5,
    "webhooks_app.pipeline.tick:PATIENCE": 1.0,
}
QUICK: dict[str, Any] = {"waits": [1] * 12, "jitter": 0.0, "connect_timeout": 0.5, "total_timeout": 1.0}
TICK_SECONDS = 0.3
AGENT = "webhooks_app.destinations.https:_AGENT"


class Stage:
    """What a test acts on. Emits and acts in pytest's own process, as a web process would."""

    def __init__(self, folder: Path, app: Celery, broker: Broker, receiver: Receiver, database: str) -> None:
        self.folder, self.broker, self.receiver = folder, broker, receiver
        self.actor = operator("system", "e2e")
        self.choice = Choice(
            database=database,
            broker=broker.url,
            port=receiver.port,
            transport_options=broker.options,
            webhooks={"QUEUE_NAME": broker.queue},
            constants=dict(SHORT),
        )
        self._app = app
        self._stack = contextlib.ExitStack()
        self.workers: list[Worker] = []

    def endpoint(self, name: str = "a", *, tenant: str | None = "t", **fields: Any) -> Endpoint:
        """Register an endpoint at the receiver's path `/name`: 13 attempts, a second apart."""
        values = {"events": ["*"], "policy_overrides": QUICK, **fields}
        return register_endpoint(self.actor, url=self.receiver.url(name), tenant_id=tenant, **values).endpoint

    def emit(self, count: int = 1, *, tenant: str = "t", **fields: Any) -> list[str]:
        """Emit events, each in a transaction of its own; return their ids."""
        return [self._emit(place, tenant, fields) for place in range(count)]

    def _emit(self, place: int, tenant: str, fields: dict[str, Any]) -> str:
        values = {"type": "order.paid", "data": {"place": place}, **fields}
        with transaction.atomic(using=ALIAS):
            return emit(tenant=tenant, **values).id

    def emit_many(self, count: int, *, tenant: str = "t", **fields: Any) -> list[str]:
        """Emit events, a hundred in a transaction; return their ids."""
        ids: list[str] = []
        for start in range(0, count, 100):
            items = [
                {"type": "order.paid", "data": {"place": place}, "tenant": tenant, **fields}
                for place in range(start, min(start + 100, count))
            ]
            with transaction.atomic(using=ALIAS):
                ids += [ref.id for ref in emit_many(items)]
        return ids

    def worker(
        self, *, wait: bool = True, name: str = "", faults: Sequence[dict[str, Any]] = (), **options: Any
    ) -> Worker:
        """Start a worker; `faults` are its own. With a `name` it says so in each request's User-Agent."""
        self.choice.faults = [{"flag": self.flag(fault), **fault} for fault in faults]
        constants = {**self.choice.constants, **({AGENT: name} if name else {})}
        worker = Worker(self.folder, replace(self.choice, constants=constants), **options)
        self.choice.faults = []
        self.keep(worker)
        self.workers.append(worker)
        return worker.start(wait=wait)

    def crew(self, *names: str, **options: Any) -> list[Worker]:
        """Start one worker of each name side by side, with one process each; return when all are ready."""
        crew = [self.worker(wait=False, name=name, concurrency=1, **options) for name in names]
        return [worker.await_ready() for worker in crew]

    def keep(self, process: Process) -> None:
        """End this process with the test."""
        self._stack.callback(process.close)

    def flag(self, fault: dict[str, Any]) -> str:
        """Return where a fault leaves its marks."""
        return str(self.folder / f"{fault['at']}-{fault['when']}-{fault['do']}".replace("/", "_"))

    def struck(self, fault: dict[str, Any], place: int = 0) -> int | None:
        """Return the id of the process that a fault struck, or None."""
        path = Path(f"{self.flag(fault)}.{place}")
        text = path.read_text() if path.exists() else ""
        return int(text) if text else None

    def beat(self) -> Beat:
        """Start a real beat."""
        beat = Beat(self.folder, self.choice)
        self.keep(beat)
        return beat.start()

    def tick(self, seconds: float = TICK_SECONDS) -> Ticker:
        """Tick from a thread until the test ends."""
        ticker = Ticker(self._app, self.broker, seconds)
        self._stack.callback(ticker.stop)
        return ticker

    def send(self, task: str, *args: Any) -> None:
        """Publish one hint, as the product does."""
        self._app.send_task(task, args, queue=self.broker.queue, ignore_result=True, expires=60)

    def pause_until(self, moment: float) -> None:
        """Wait until a moment of the monotonic clock."""
        time.sleep(max(0.0, moment - time.monotonic()))

    def seen(self, event_id: str) -> bool:
        """Whether the receiver was sent this event."""
        return any(post.event_id == event_id for post in list(self.receiver.posts))

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement in the test's database."""
        return invariants.rows(sql, *values)

    def value(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        return invariants.rows(sql, *values)[0][0]

    def open(self) -> int:
        """Return how many entries and deliveries still wait for something."""
        return int(
            self.value(
                """SELECT (SELECT count(*) FROM webhooks_app_outboxentry WHERE dispatched_at IS NULL) +
                (SELECT count(*) FROM webhooks_app_delivery WHERE state = 'pending') +
                (SELECT count(*) FROM webhooks_app_event WHERE fanned_out_at IS NULL)"""
            )
        )

    def settle(self, seconds: float = 20.0) -> None:
        """Wait until nothing is open; fail with the workers' logs."""
        self.until(lambda: self.open() == 0, seconds, "everything has ended", every=0.05)

    def until(self, check: Callable[[], bool], seconds: float, what: str, *, every: float = 0.02) -> None:
        """Wait until `check` is true, and fail when it does not come true."""
        if not wait_until(check, seconds=seconds, every=every):
            pytest.fail(f"not within {seconds} s: {what}\n{self.logs()}")

    def logs(self) -> str:
        """Return the ends of the workers' logs, and what is open."""
        ends = [f"--- {worker.log.name}\n{worker.text()[-2500:]}" for worker in self.workers]
        return "\n".join([*ends, str(self.states())])

    def states(self) -> list[tuple[Any, ...]]:
        """Return how many deliveries are in each state."""
        return self.rows(
            """SELECT state, attempts, lease_until, due_at, last_error, count(*) FROM webhooks_app_delivery
            GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC LIMIT 10"""
        )

    def close(self) -> None:
        """End every process."""
        self._stack.close()


@contextlib.contextmanager
def timed() -> Iterator[list[float]]:
    """Append the seconds that the block took to the yielded list."""
    took: list[float] = []
    started = time.monotonic()
    yield took
    took.append(time.monotonic() - started)
