"""Threads that wait for receivers. Few while receivers are quick, more while requests hang."""

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

STUCK_AFTER = 0.01
IDLE_EXIT = 10.0

Task = Callable[[], None]


class Senders:
    """A pool that keeps `base` threads free of waiting requests, up to `most` in all.

    With too many threads a quick receiver is slowed by the interpreter lock; with too few, waiting requests
    hold up the rest. So the pool counts the threads whose request is open for longer than 10 ms and has
    `base` threads beside those.
    """

    def __init__(self, base: int, most: int) -> None:
        self.most = max(base, most)
        self._base = base
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._busy_since: dict[int, float] = {}
        self._threads = 0

    def submit(self, task: Task) -> None:
        """Run `task` in a thread; tasks do not raise."""
        self._tasks.put(task)

    def grow(self) -> None:
        """Start threads if tasks wait; called after submitting, and often while any are open."""
        waiting = self._tasks.qsize()
        if not waiting:
            return
        stuck_before = time.monotonic() - STUCK_AFTER
        busy = list(self._busy_since.values())
        stuck = sum(since < stuck_before for since in busy)
        wanted = min(self.most, self._base + stuck, len(busy) + waiting)
        for _ in range(wanted - self._threads):
            self._start()

    def close(self) -> None:
        """Let every thread end after what is queued before."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _start(self) -> None:
        with self._lock:
            self._threads += 1
        try:
            threading.Thread(target=self._run, name="webhooks-sender", daemon=True).start()
        except RuntimeError:  # the system has no more: tasks wait for those there are, and `grow` tries again
            with self._lock:
                self._threads -= 1

    def _run(self) -> None:
        me = threading.get_ident()
        try:
            while True:
                task = self._next()
                if task is None:
                    return
                self._busy_since[me] = time.monotonic()
                task()
                del self._busy_since[me]
        finally:
            self._busy_since.pop(me, None)
            with self._lock:
                self._threads -= 1

    def _next(self) -> Task | None:
        """Wait for a task; None when this thread is no longer needed."""
        while True:
            try:
                return self._tasks.get(timeout=IDLE_EXIT)
            except queue.Empty:
                if self._threads > self._base:
                    return None


def describe(senders: Senders) -> dict[str, Any]:
    """Return the pool's numbers for logs and tests."""
    return {"threads": senders._threads, "open": len(senders._busy_since)}
