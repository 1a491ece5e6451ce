"""The doorbell: whoever has news rings it and goes on; a daemon thread of the process tells the queue.

A caller never talks to the broker, so a broker that is down, slow or frozen costs it nothing. The thread
publishes at once and then at most every 5 ms; hints that wait are merged. At exit it gets half a second.
"""

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping

from django.db import transaction

from .hints import Hints
from .queue import InlineQueue, Queue, make_queue

logger = logging.getLogger("webhooks_app.pipeline")

GAP = 0.005
EXIT_PATIENCE = 0.5
SILENCE = 5.0
BACKOFF = 1.0


class Doorbell:
    """Collects hints and publishes them from a thread of its own."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._waiting = Hints()
        self._rung = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._silent_until = 0.0

    def ring(self, hints: Hints) -> None:
        """Take the hints; never raises, never waits for the broker where threads work."""
        if isinstance(self._queue, InlineQueue):
            self._queue.publish(hints)
            return
        with self._lock:
            self._waiting.merge(hints)
            self._idle.clear()
        if self._has_thread():
            self._rung.set()
        else:
            self._publish_now()

    def flush(self, seconds: float) -> bool:
        """Wait until everything rung so far is published, at most `seconds`."""
        return self._idle.wait(seconds)

    def _has_thread(self) -> bool:
        if self._thread is None and threads_work():
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="webhooks-doorbell", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError:  # the system has no more threads, or the interpreter is ending
                        return False
                    self._thread = thread
        return self._thread is not None

    def _run(self) -> None:
        while True:
            self._rung.wait()
            self._rung.clear()
            if not self._publish():
                time.sleep(BACKOFF)
                self._rung.set()
            time.sleep(GAP)

    def _publish_now(self) -> None:
        """Without threads: publish in the caller, and after a failure leave the broker alone for a while."""
        if time.monotonic() < self._silent_until:
            return
        if not self._publish():
            self._silent_until = time.monotonic() + SILENCE

    def _publish(self) -> bool:
        with self._lock:
            hints, self._waiting = self._waiting, Hints()
        try:
            if hints:
                self._queue.publish(hints)
        except Exception as error:  # any transport may raise anything; the rows are still there
            logger.warning("the broker took no wake (%s); the tick will find the work", type(error).__name__)
            with self._lock:
                self._waiting.merge(hints)
            return False
        with self._lock:
            if not self._waiting:
                self._idle.set()
        return True


def threads_work() -> bool:
    """Whether a background thread would run here; under uWSGI only with --enable-threads."""
    uwsgi = sys.modules.get("uwsgi")
    return uwsgi is None or bool(getattr(uwsgi, "opt", {}).get("enable-threads"))


_bell: Doorbell | None = None
_making = threading.Lock()


def bell() -> Doorbell:
    """Return the process's doorbell."""
    global _bell
    if _bell is None:
        with _making:
            if _bell is None:
                _bell = Doorbell(make_queue())
    return _bell


def install(queue: Queue) -> None:
    """Make this process's hints go to `queue`, whatever the setting QUEUE says."""
    global _bell
    _bell = Doorbell(queue)


def reset() -> None:
    """Forget the doorbell: after a fork its thread is gone, and tests change the queue."""
    global _bell, _making
    _bell, _making = None, threading.Lock()


def ring(
    *,
    fan_out: bool = False,
    endpoint_ids: Iterable[int] = (),
    later: Mapping[int, float] | None = None,
    slow: Iterable[int] = (),
    neglected: Iterable[int] = (),
    jobs: bool = False,
) -> None:
    """Publish hints soon; see `Hints`. `later` maps endpoints to seconds."""
    hints = Hints()
    hints.add(
        fan_out=fan_out, endpoint_ids=endpoint_ids, later=later, slow=slow, neglected=neglected, jobs=jobs
    )
    if hints:
        bell().ring(hints)


def ring_on_commit(
    alias: str, *, fan_out: bool = False, endpoint_ids: Iterable[int] = (), jobs: bool = False
) -> None:
    """Publish hints when the transaction on `alias` commits; at once when there is none."""
    ids = tuple(endpoint_ids)
    transaction.on_commit(
        lambda: ring(fan_out=fan_out, endpoint_ids=ids, jobs=jobs), using=alias, robust=True
    )


def _flush_at_exit() -> None:
    if _bell is not None:
        _bell.flush(EXIT_PATIENCE)


atexit.register(_flush_at_exit)
os.register_at_fork(after_in_child=reset)
