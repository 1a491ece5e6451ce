"""A server process of our own: private folder, private port, and surely gone afterwards."""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

GUARD = Path(__file__).with_name("guard.py")
# Below the kernel's range for outgoing connections, so that a restart finds its port still free.
PORTS = range(20_000, 32_000)


class ServerError(RuntimeError):
    """A server did not start, or its program is not installed."""


def free_port() -> int:
    """Return a loopback port nobody listens on."""
    for port in random.SystemRandom().sample(PORTS, 200):
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ServerError("no free port on loopback")


def account() -> pwd.struct_passwd | None:
    """Return the unprivileged account that servers run under, or None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerError("root needs an account named postgres or nobody to run servers under")


def descendants(pid: int) -> list[int]:
    """Return `pid` and every process below it; PostgreSQL's backends leave the process group."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found


def signal_tree(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process and everything below it, parents first."""
    for each in descendants(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def wait_until(check: Callable[[], bool], *, seconds: float, every: float = 0.02) -> bool:
    """Poll until `check` is true; return False when `seconds` went by first."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every)
    return True


class Server:
    """One private server. Use as a context manager, or `start()` and `close()`.

    `stop`, `kill` and `start` keep the folder and the port: a server comes back where it was.
    `close` also removes the folder. When this process dies, even by SIGKILL, a guard process
    ends the server and removes the folder.
    """

    name = "server"
    stop_signal = signal.SIGTERM
    start_seconds = 30.0
    stop_seconds = 10.0

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"wh-{self.name}-"))
        self.log = self.folder / "server.log"
        self.account = account()
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._give(self.folder)

    url: str

    def command(self) -> Sequence[str]:
        """Return the command that runs the server in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """Return variables added to the server's environment."""
        return {}

    def prepare(self) -> None:
        """Make what must exist before every start."""

    def ready(self) -> bool:
        """Whether the server answers."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        """The main process."""
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the main process lives (frozen counts)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until the server answers.

        Raises:
            ServerError: it ended, or did not answer in time; the message holds the end of its log.
        """
        if self.running:
            return self
        self.prepare()
        with self.log.open("ab") as out:
            self._process = self.spawn(self.command(), stdout=out, stderr=subprocess.STDOUT)
        self._guard = self._watch(self._process.pid)
        if not wait_until(lambda: self.ready() or not self.running, seconds=self.start_seconds):
            self.kill()
        if not self.running:
            raise ServerError(f"{self.name} did not start:\n{self.tail()}")
        return self

    def stop(self) -> None:
        """Stop in an orderly way; SIGKILL when that takes too long."""
        if self._process is None:
            return
        if self.running:
            self.thaw()
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.stop_seconds)
        self.kill()

    def kill(self) -> None:
        """SIGKILL the server and everything below it: a crash."""
        if self._process is None:
            return
        signal_tree(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        self._dismiss()

    def restart(self) -> Self:
        """Stop and start again, with the same folder and port."""
        self.stop()
        return self.start()

    def freeze(self) -> None:
        """Stop the clock of the whole server: connections stay open, nothing answers."""
        signal_tree(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        signal_tree(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze for the length of a block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def close(self) -> None:
        """Stop and remove the folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tail(self, lines: int = 20) -> str:
        """Return the end of the server's log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def spawn(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program the way the server itself is started: own session, unprivileged."""
        if self.account is not None:
            options |= {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),
            **self.environment(),
        }
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )

    def run(self, command: Sequence[str]) -> str:
        """Run a helper program as the server's account; raise ServerError when it fails."""
        process = self.spawn(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = process.communicate()[0].decode(errors="replace")
        if process.returncode:
            raise ServerError(f"{command[0]} failed:\n{output}")
        return output

    def _give(self, path: Path) -> None:
        if self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    def _watch(self, pid: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-E", str(GUARD), str(pid), str(self.folder)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def _dismiss(self) -> None:
        if self._guard is None:
            return
        with contextlib.suppress(OSError):
            self._guard.communicate(b"done")
        self._guard = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def ask(port: int, question: bytes, *, seconds: float = 1.0) -> bytes:
    """Send bytes to a loopback port and return the first reply, b"" when there is none."""
    address = ("127.0.0.1", port)
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=seconds) as connection:
        connection.sendall(question)
        return connection.recv(512)
    return b""
