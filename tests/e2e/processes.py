"""Real processes of the product: Celery workers and beat, with their signals and logs."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Self

from scripts.processes import descendants, signal_tree, wait_until
from tests.e2e.choice import Choice

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 40.0
# As faulthandler begins each thread's.
STACK = "most recent call first"

_numbers = itertools.count(1)


class ProcessError(RuntimeError):
    """A process did not do what it was started for; the message holds the end of its log."""


class Process:
    """One process with its children, in a session of its own."""

    name = "process"
    ready_mark = ""

    def __init__(self, folder: Path, choice: Choice, *, environment: Mapping[str, str] | None = None) -> None:
        self.log = folder / f"{self.name}-{next(_numbers)}.log"
        self._environment = {**choice.environment(), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._restarting = threading.Lock()

    def command(self) -> list[str]:
        """Return the command line."""
        raise NotImplementedError

    def start(self, *, wait: bool = True) -> Self:
        """Start, and wait until the log says that it is ready."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                self.command(),
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self.await_ready() if wait else self

    def await_ready(self) -> Self:
        """Wait until the log says that it is ready."""
        wait_until(lambda: self.said(self.ready_mark) or not self.running, seconds=START_SECONDS, every=0.05)
        if not self.running or not self.said(self.ready_mark):
            raise ProcessError(f"{self.name} did not start:\n{self.text()[-3000:]}")
        return self

    def text(self) -> str:
        """Return what the process wrote so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def said(self, words: str) -> bool:
        """Whether the log holds these words."""
        return words in self.text()

    @property
    def pid(self) -> int:
        """The main process."""
        if self._process is None:
            raise ProcessError(f"{self.name} was not started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the main process lives (a frozen one does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def children(self) -> list[int]:
        """The processes below the main one; prefork's pool."""
        return descendants(self.pid)[1:]

    def kill(self) -> None:
        """SIGKILL all of it: the machine is gone."""
        for pid in [*self.children, self.pid]:
            _signal(pid, signal.SIGKILL)
        self.close()

    def kill_main(self) -> None:
        """SIGKILL the main process only."""
        _signal(self.pid, signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP all of it."""
        signal_tree(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT all of it."""
        signal_tree(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM to the main process, as a deploy does."""
        _signal(self.pid, signal.SIGTERM)

    def terminate_all(self) -> None:
        """SIGTERM to all of it at once."""
        signal_tree(self.pid, signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the exit code; ProcessError when it does not come."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._tell_where()
            raise ProcessError(f"{self.name} did not end in {seconds} s:\n{self.text()[-9000:]}") from None

    def _tell_where(self) -> None:
        """Let every process write its threads' stacks into the log."""
        for pid in [self.pid, *self.children]:
            before = self.text().count(STACK)
            _signal(pid, signal.SIGUSR2)
            wait_until(partial(self._said_more, before), seconds=5)

    def _said_more(self, before: int) -> bool:
        return self.text().count(STACK) > before

    def supervise(self) -> Self:
        """Start it again whenever it ends, as systemd or a container's restart policy does."""
        threading.Thread(target=self._restart_when_ended, daemon=True).start()
        return self

    def _restart_when_ended(self) -> None:
        while not self._closed.wait(0.2):
            with self._restarting:
                if not self._closed.is_set() and not self.running:
                    self._end_session()
                    self.start(wait=False)

    def close(self) -> None:
        """End it and everything it started, also what is frozen or lost its parent."""
        with self._restarting:
            self._closed.set()
            self._end_session()

    def _end_session(self) -> None:
        if self._process is None:
            return
        for pid in _session(self._process.pid):
            _signal(pid, signal.SIGKILL)
        self._process.wait(10)


class Worker(Process):
    """A Celery worker for the product's queue."""

    name = "worker"
    ready_mark = " ready."

    def __init__(
        self,
        folder: Path,
        choice: Choice,
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        queue: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, choice, environment=environment)
        self._pool, self._concurrency = pool, concurrency
        self._queue = queue or choice.webhooks.get("QUEUE_NAME", "webhooks")

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "celery", "-A", "tests.e2e.app", "worker"),
            *("-P", self._pool, "-c", str(self._concurrency), "-Q", self._queue),
            *("-n", f"{self.log.stem}-{os.getpid()}@%h", "-l", "INFO"),
            *("--without-gossip", "--without-mingle"),
        ]


class Beat(Process):
    """Celery beat."""

    name = "beat"
    ready_mark = "beat: Starting"

    def command(self) -> list[str]:
        schedule = str(self.log.with_suffix(".schedule"))
        return [
            *(sys.executable, "-m", "celery", "-A", "tests.e2e.app", "beat"),
            *("-s", schedule, "-l", "INFO", "--pidfile="),
        ]


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _session(leader: int) -> list[int]:
    """Return the processes of a session: Celery's pool processes have groups of their own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                found.append(int(stat.parent.name))
    return found
