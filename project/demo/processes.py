"""The three processes of the demo: web pages, sender, clock. They end with this one, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from project.demo.environment import ROOT, Run

GUARD = Path(__file__).with_name("guard.py")
QUEUES = "webhooks"
STOP_SECONDS = 6.0


class ProcessDied(RuntimeError):
    """A process of the demo ended by itself."""


class Processes:
    """Starts processes in groups of their own and stops them all at the end of the `with` block."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        command = [sys.executable, "-S", "-E", str(GUARD), str(run.folder)]
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def start_all(self) -> None:
        """Start web pages, sender and clock."""
        self.start("web", "manage.py", "runserver", "--noreload", f"127.0.0.1:{self._run.web_port}")
        # The file broker and SQLite gain nothing from a second process; the sender has threads of its own.
        celery = ["-m", "celery", "-A", "project"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        self.start("sender", *celery, "worker", "--pool", "solo", "-Q", QUEUES, "-l", "INFO", *quiet)
        self.start("clock", *celery, "beat", "-l", "INFO", "-s", str(self._run.folder / "beat-schedule"))

    def start(self, name: str, *arguments: str) -> None:
        """Start one Python process whose output goes to `NAME.log` of the run's folder."""
        with (self._run.folder / f"{name}.log").open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[name] = process
        self._tell_guard(f"{process.pid}\n")

    def check(self) -> None:
        """Raise ProcessDied when a process has ended."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ProcessDied(f"the {name} ended with code {process.returncode}")

    def stop(self) -> None:
        """Ask every process to end, kill what has not after a few seconds."""
        for process in self._running.values():
            self._signal(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            self._signal(process, signal.SIGKILL)
            process.wait()
        self._tell_guard("done\n")
        self._guard.communicate()

    def _signal(self, process: subprocess.Popen[bytes], number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    def _tell_guard(self, text: str) -> None:
        pipe = self._guard.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write(text.encode())
                pipe.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave a process behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        self.stop()
