"""A receiver on loopback that remembers every request and answers by script."""

import contextlib
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass(frozen=True, slots=True)
class Post:
    """One request as it arrived. `at` is monotonic."""

    at: float
    path: str
    event_id: str
    endpoint_id: str
    attempt: int
    attempt_id: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """What to answer, and when: after `delay` seconds, or when `gate` opens. `drop`: not at all."""

    status: int = 200
    delay: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    gate: threading.Event | None = None
    drop: bool = False


Script = Callable[[Post], Reply]


class Receiver:
    """Serves `http://NAME.e2e:PORT/PATH`; every path has a script, by default 200 at once."""

    def __init__(self, *, idle_seconds: float | None = None, context: ssl.SSLContext | None = None) -> None:
        self.posts: list[Post] = []
        # When an event was first answered with a 2xx, by path and event.
        self.accepted: dict[tuple[str, str], float] = {}
        self.in_flight: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.connections = 0
        self._scripts: dict[str, Script] = {}
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = _Server(self, idle_seconds, context)
        self._scheme = "https" if context else "http"
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def url(self, name: str) -> str:
        """Return the URL of path `/name`, on a host name of its own."""
        return f"{self._scheme}://{name.replace('_', '-')}.e2e:{self.port}/{name}"

    def on(self, name: str, script: Script | Reply) -> None:
        """Answer at path `/name` by this script, or always with this reply."""
        self._scripts[f"/{name}"] = script if callable(script) else lambda _: script

    def at(self, name: str) -> list[Post]:
        """Return the requests to path `/name`, in order of arrival."""
        return [post for post in list(self.posts) if post.path == f"/{name}"]

    def count(self, name: str) -> int:
        """Return how many requests came to path `/name`."""
        return len(self.at(name))

    def answer(self, post: Post) -> Reply | None:
        """Remember a request, wait as its script says, return the reply; None = hang up."""
        with self._lock:
            self.posts.append(post)
            self.in_flight[post.path] += 1
            self.peak[post.path] = max(self.peak[post.path], self.in_flight[post.path])
        try:
            reply = self._scripts.get(post.path, lambda _: Reply())(post)
            if reply.gate is not None:
                reply.gate.wait(60)
            time.sleep(reply.delay)
            if 200 <= reply.status < 300 and not reply.drop:
                self.accepted.setdefault((post.path, post.event_id), time.monotonic())
            return None if reply.drop else reply
        finally:
            with self._lock:
                self.in_flight[post.path] -= 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.hang_up()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def setup(self) -> None:
        self.timeout = self.server.idle_seconds
        super().setup()
        self.server.connected(self.connection)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.server.disconnected(self.connection)

    def handle(self) -> None:
        # A sender that was killed hangs up in the middle of anything.
        with contextlib.suppress(OSError, ValueError):
            super().handle()

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        post = Post(
            at=time.monotonic(),
            path=self.path,
            event_id=headers.get("webhook-id", ""),
            endpoint_id=headers.get("webhook-endpoint-id", ""),
            attempt=int(headers.get("webhook-attempt", 0)),
            attempt_id=headers.get("webhook-delivery-id", ""),
            headers=headers,
            body=body,
        )
        reply = self.server.receiver.answer(post)
        if reply is None:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_PUT = do_PATCH = do_POST

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    allow_reuse_address = True

    def __init__(
        self, receiver: Receiver, idle_seconds: float | None, context: ssl.SSLContext | None
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.receiver = receiver
        self.idle_seconds = idle_seconds
        self._sockets: set[socket.socket] = set()
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def connected(self, connection: socket.socket) -> None:
        self._sockets.add(connection)
        self.receiver.connections += 1

    def disconnected(self, connection: socket.socket) -> None:
        self._sockets.discard(connection)

    def hang_up(self) -> None:
        for connection in list(self._sockets):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A sender that was killed is no error of ours."""
