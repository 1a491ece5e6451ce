"""The demo as a whole: it proves everything, and leaves nothing behind however it ends."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.structure.sources import ROOT

pytestmark = pytest.mark.e2e
PROMISES = 8


def folders() -> set[Path]:
    """Return the folders of runs."""
    return set((ROOT / "data").glob("demo-*"))


def processes_of(folder: Path) -> list[str]:
    """Return the command lines that still work in a run's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in environment + command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def wait_until_gone(folder: Path, seconds: float) -> None:
    """Fail unless a run's folder and processes go away."""
    deadline = time.monotonic() + seconds
    while (folder.exists() or processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not processes_of(folder)
    assert not folder.exists()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One of these tests at a time, among all test processes: they look at the folders of all runs."""
    with (Path(tempfile.gettempdir()) / "webhooks-demo-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    """The demo, started for good."""
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-u", "manage.py", "webhooks_demo"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        yield process
        process.kill()


def folder_of_running(demo: subprocess.Popen[str], before: set[Path]) -> Path:
    """Read the demo's output until its programs run; return its folder."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("Each customer"):
            break
    [folder] = folders() - before
    assert len(processes_of(folder)) >= 4
    return folder


def test_it_runs_through_and_proves_everything() -> None:
    before = folders()
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "manage.py", "webhooks_demo", "--once"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 80
    assert done.stdout.count("✓") == PROMISES
    assert "28 of 28 messages arrived and checked · 0 waiting for another try · 0 given up" in done.stdout
    assert done.stdout.count("it is well again") == 1
    assert "whsec_" not in done.stdout
    assert folders() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(demo: subprocess.Popen[str], number: signal.Signals) -> None:
    folder = folder_of_running(demo, folders())
    demo.send_signal(number)
    assert demo.stdout is not None
    assert "nothing is left running" in demo.stdout.read()
    assert demo.wait(20) == 0
    wait_until_gone(folder, 5)


def test_even_a_killed_demo_leaves_nothing_behind(demo: subprocess.Popen[str]) -> None:
    folder = folder_of_running(demo, folders())
    demo.kill()
    wait_until_gone(folder, 10)
