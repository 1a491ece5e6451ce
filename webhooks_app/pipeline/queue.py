"""Where hints go: to Celery, to this thread (inline), or nowhere (poll).

Tasks are sent by name, so nothing here imports them; `tasks.py` registers the same names.
"""

import logging
import threading
from typing import Any, Protocol

from ..conf import current
from .hints import Hints

logger = logging.getLogger("webhooks_app.pipeline")

FAN_OUT = "webhooks_app.fan_out"
DELIVER = "webhooks_app.deliver"
TICK = "webhooks_app.tick"
PRUNE = "webhooks_app.prune"
RUN_JOBS = "webhooks_app.run_jobs"

# A hint that nobody read for this long says nothing new: the tick has looked meanwhile.
EXPIRES = 60.0
# Redis only: without these a frozen server would hold the publisher for ever.
_REDIS_TIMEOUTS = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3, "retry_on_timeout": False}


class Queue(Protocol):
    """Publishes hints."""

    def publish(self, hints: Hints) -> None:
        """Send the hints; may raise anything when the broker is away."""


class CeleryQueue:
    """Messages for the host's Celery app, over a connection of its own with short time-outs."""

    def __init__(self) -> None:
        self._producer: Any = None

    def publish(self, hints: Hints) -> None:
        """Send one message for the fan-out, one for the jobs, and one per hundred endpoints."""
        try:
            if hints.fan_out:
                self._send(FAN_OUT, ())
            for ids, countdown in hints.wakes():
                self._send(DELIVER, (ids,), countdown)
            for ids, elsewhere in hints.slow_wakes():
                self._send(DELIVER, (ids, True), queue=current().SLOW_QUEUE_NAME if elsewhere else None)
            if hints.jobs:
                self._send(RUN_JOBS, (), queue=current().BULK_QUEUE_NAME)
        except Exception:
            self.close()
            raise

    def _send(
        self,
        name: str,
        args: tuple[Any, ...],
        countdown: float | None = None,
        queue: str | None = None,
    ) -> None:
        from celery import current_app

        if self._producer is None:
            self._producer = current_app.amqp.Producer(_connection(current_app), auto_declare=False)
        current_app.send_task(
            name,
            args,
            queue=queue or current().QUEUE_NAME,
            countdown=countdown,
            expires=EXPIRES + (countdown or 0),
            ignore_result=True,
            retry=False,
            producer=self._producer,
        )

    def close(self) -> None:
        """Forget the connection; the next hint dials anew."""
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.connection.close()
            except Exception:  # closing a broken connection fails in as many ways as there are transports
                logger.debug("closing the broker connection failed", exc_info=True)


def _connection(app: Any) -> Any:
    options = dict(app.conf.broker_transport_options or {})
    probe = app.connection_for_write()
    if probe.transport_cls in ("redis", "rediss"):
        options = {**options, **_REDIS_TIMEOUTS}
    return app.connection_for_write(transport_options=options, connect_timeout=0.5, heartbeat=0)


def ping(timeout: float) -> None:
    """Reach the broker within `timeout` seconds.

    Raises:
        Exception: whatever the transport raises when it is not there.
    """
    from celery import current_app

    connection = _connection(current_app)
    try:
        connection.ensure_connection(max_retries=1, timeout=timeout, interval_start=0)
    finally:
        connection.close()


def scheduled_tasks() -> frozenset[str] | None:
    """Return the tasks that the host's Celery app runs periodically; None when a table holds its schedule."""
    from celery import current_app

    conf = current_app.conf
    if "DatabaseScheduler" in str(conf.beat_scheduler):
        return None
    return frozenset(str(entry.get("task")) for entry in (conf.beat_schedule or {}).values())


class InlineQueue:
    """Does the work at once in the calling thread; for tests. Later wakes are left to the tick."""

    def __init__(self) -> None:
        self._waiting = Hints()
        self._busy = threading.RLock()
        self._depth = 0

    def publish(self, hints: Hints) -> None:
        """Run what the hints ask for, and what follows from it, until nothing is left."""
        with self._busy:
            self._waiting.merge(hints)
            if self._depth:
                return
            self._depth += 1
            try:
                self._drain()
            finally:
                self._depth -= 1

    def _drain(self) -> None:
        from . import inline

        while self._waiting.is_for_now:
            hints, self._waiting = self._waiting, Hints()
            if hints.jobs:
                inline.run_jobs()
            if hints.fan_out:
                inline.fan_out()
            for ids, countdown in hints.wakes():
                if countdown is None:
                    inline.deliver(ids)
            for ids, _ in hints.slow_wakes():
                inline.deliver(ids)
        self._waiting = Hints()


class PollQueue:
    """Publishes nothing: `webhooks_run` looks at the tables itself."""

    def publish(self, hints: Hints) -> None:
        """Drop the hints."""


_QUEUES: dict[str, type[Queue]] = {"celery": CeleryQueue, "inline": InlineQueue, "poll": PollQueue}


def make_queue() -> Queue:
    """Return a new queue of the kind that the setting QUEUE names."""
    return _QUEUES[current().QUEUE]()
