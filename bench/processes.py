"""The processes of a measurement that run this checkout: the receiver and the worker."""

import http.client
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme

from bench import usage
from scripts.processes import Server, ask, descendants, free_port

ROOT = Path(__file__).resolve().parent.parent


class OwnProcess(Server):
    """A process of this checkout, under our own account and with our environment."""

    def __init__(self) -> None:
        super().__init__()
        self.account = None

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}


class Receiver(OwnProcess):
    """The receiving process, and the questions one can ask it."""

    name = "receiver"

    def __init__(self) -> None:
        super().__init__()
        self.tls_port = free_port()
        self.ca = self.folder / "ca.pem"
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        # A wildcard below a top-level name, such as *.bench, is matched by nobody.
        pair = authority.issue_cert("receiver.bench")
        self._files = [self.folder / "certificate.pem", self.folder / "key.pem"]
        pair.cert_chain_pems[0].write_to_path(self._files[0])
        pair.private_key_pem.write_to_path(self._files[1])

    def command(self) -> Sequence[str]:
        ports = [str(self.port), str(self.tls_port)]
        return [sys.executable, "-m", "bench.receiver", *ports, *map(str, self._files)]

    def ready(self) -> bool:
        return ask(self.port, b"GET /-/count HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")

    def endpoint(self, group: str, *, wait_ms: int = 0, host: str = "receiver", tls: bool = False) -> str:
        """Return an endpoint's URL; its answers come after `wait_ms`, its figures are kept under `group`."""
        scheme, port = ("https", self.tls_port) if tls else ("http", self.port)
        return f"{scheme}://{host}.bench:{port}/{group}/{wait_ms}/"

    def count(self) -> int:
        """Return how many requests have arrived."""
        return int(self._ask("count"))

    def stats(self, group: str) -> dict[str, Any]:
        """Return the figures of a group."""
        return dict(self._ask("stats").get(group, {"count": 0, "timed": 0}))

    def reset(self) -> None:
        """Forget what has arrived."""
        self._ask("reset")

    def _ask(self, question: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", f"/-/{question}")
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


class Worker(OwnProcess):
    """A Celery worker with two prefork processes on the one queue, as the compose file starts it."""

    name = "worker"
    stop_seconds = 0.1  # nobody waits for requests that hang; the database is thrown away
    processes = 2

    def __init__(self, database_url: str) -> None:
        super().__init__()
        self._database_url = database_url
        self._ready = self.folder / "ready"

    def environment(self) -> Mapping[str, str]:
        own = {"BENCH_DATABASE_URL": self._database_url, "BENCH_READY": str(self._ready)}
        return {**super().environment(), **own}

    def command(self) -> Sequence[str]:
        options = ["-P", "prefork", "-c", str(self.processes), "-Q", "webhooks", "-l", "WARNING"]
        quiet = ["--without-gossip", "--without-mingle"]
        return [sys.executable, "-m", "celery", "-A", "bench.celeryapp", "worker", *options, *quiet]

    def ready(self) -> bool:
        return self._ready.exists()

    @property
    def children(self) -> list[int]:
        """The processes that do the work."""
        return [pid for pid in descendants(self.pid) if pid != self.pid]

    def are_warm(self) -> bool:
        """Whether every child has sent something: its sender threads are there."""
        return all(usage.threads(pid) > 2 for pid in self.children)
