"""Brokers for one test: a database number of the shared Redis, a queue name of the shared RabbitMQ."""

import contextlib
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import redis
from celery import Celery

from webhooks_app.pipeline.queue import TICK


@dataclass(frozen=True, slots=True)
class Broker:
    """Where hints go. `options` are the transport's."""

    url: str
    queue: str = "webhooks"
    options: dict[str, Any] = field(default_factory=dict)


def redis_broker(url: str, **options: Any) -> Broker:
    """Return a Redis database that no other running test uses; 0 is for counting, 15 are used in turn."""
    with redis.Redis.from_url(url) as counter:
        number = 1 + int(counter.incr("e2e:databases")) % 15
    own = f"{url.rpartition('/')[0]}/{number}"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
    return Broker(own, options=options)


def rabbitmq_broker(url: str) -> Broker:
    """Return a queue of its own in the RabbitMQ at `url`."""
    return Broker(url, queue=f"webhooks-{secrets.token_hex(4)}")


@contextlib.contextmanager
def celery_uses(app: Celery, broker: Broker) -> Iterator[None]:
    """Let this process's Celery app publish to the broker."""
    changed = {"broker_url": broker.url, "broker_transport_options": broker.options}
    before = {name: app.conf[name] for name in changed}
    app.conf.update(changed)
    try:
        yield
    finally:
        app.conf.update(before)


class Ticker:
    """Sends the tick's message again and again, as beat does; a broker that is away only delays it."""

    def __init__(self, app: Celery, broker: Broker, seconds: float) -> None:
        self._app, self._broker, self._seconds = app, broker, seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with contextlib.suppress(Exception), self._connection() as connection:
                self._app.send_task(
                    TICK,
                    queue=self._broker.queue,
                    connection=connection,
                    retry=False,
                    ignore_result=True,
                    expires=5,
                )

    def _connection(self) -> Any:
        options = dict(self._broker.options)
        if self._broker.url.startswith("redis"):
            options |= {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
        return self._app.connection_for_write(
            self._broker.url, connect_timeout=0.5, transport_options=options
        )

    def stop(self) -> None:
        """Stop ticking."""
        self._stopped.set()
        self._thread.join(5)
