"""The customers' systems: one HTTPS server on loopback that checks every message as a customer would."""

import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

BROKEN = 503
FORGED = 401
IDLE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as a customer saw it.

    `verified`: the official library accepts signature and time. `comeback`: the first that was accepted after
    a breakdown.
    """

    host: str
    event: dict[str, Any]
    attempt: int
    verified: bool
    answer: int
    comeback: bool = False

    @property
    def type(self) -> str:
        """The type of the event."""
        return str(self.event.get("type", ""))

    @property
    def order(self) -> int:
        """The number of the order that the event is about; 0 when it is about none."""
        return int(self.event.get("data", {}).get("order", 0))


class Receiver:
    """Answers for all customers, told apart by host name.

    Args:
        port: loopback port to listen on.
        dead_port: one where nobody answers until `switch_on`.
        certificate: PEM file with key and chain for the customers' names.
        on_arrival: called from the server's threads with every arrival.
    """

    def __init__(
        self, port: int, dead_port: int, certificate: Path, on_arrival: Callable[[Arrival], None]
    ) -> None:
        self.port, self.dead_port = port, dead_port
        self.secrets: dict[str, str] = {}
        self._arrivals: list[Arrival] = []
        self._refusals: dict[str, int] = {}
        self._stumbles: dict[str, int] = {}
        self._down: set[str] = set()
        self._mended: set[str] = set()
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._on_arrival = on_arrival
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server, self._sleeping = (_Server(self, each, context) for each in (port, dead_port))

    def start(self) -> None:
        """Serve from a daemon thread."""
        self._server.serve()

    def switch_on(self) -> None:
        """Answer at the dead port too."""
        self._sleeping.serve()

    def stop(self) -> None:
        """Stop listening."""
        self._server.close()
        self._sleeping.close()

    def behave(self, host: str, *, refusals: int = 0, stumbles: int = 0) -> None:
        """Let a customer refuse so many requests of every message, and the first so many of all."""
        self._refusals[host], self._stumbles[host] = refusals, stumbles

    def break_down(self, host: str) -> None:
        """Let a customer refuse everything, until it is mended."""
        with self._lock:
            self._down.add(host)

    def mend(self, host: str) -> None:
        """Let a customer accept messages again."""
        with self._lock:
            self._down.remove(host)
            self._mended.add(host)

    def arrivals(self) -> list[Arrival]:
        """Return every request so far, oldest first."""
        with self._lock:
            return list(self._arrivals)

    def handle(self, host: str, headers: dict[str, str], body: bytes) -> int:
        """Check a message and return the HTTP status that the customer answers."""
        verified = self._verified(host, headers, body)
        with self._lock:
            answer = self._answer(host, headers.get("webhook-id", "")) if verified else FORGED
            arrival = Arrival(
                host=host,
                event=json.loads(body) if verified else {},
                attempt=int(headers.get("webhook-attempt", "0")),
                verified=verified,
                answer=answer,
                comeback=answer == 200 and host in self._mended,
            )
            if arrival.comeback:
                self._mended.remove(host)
            self._arrivals.append(arrival)
        self._on_arrival(arrival)
        return answer

    def _answer(self, host: str, message: str) -> int:
        self._seen[host, message] += 1
        self._seen[host, ""] += 1
        stumbles = self._seen[host, ""] <= self._stumbles.get(host, 0)
        refuses = self._seen[host, message] <= self._refusals.get(host, 0)
        return BROKEN if host in self._down or stumbles or refuses else 200

    def _verified(self, host: str, headers: dict[str, str], body: bytes) -> bool:
        try:
            Webhook(self.secrets[host]).verify(body, headers)
        except (KeyError, ValueError, WebhookVerificationError):
            return False
        return True


class _Server(ThreadingHTTPServer):
    """Keeps its port from the start; connections are refused until it serves."""

    daemon_threads = True

    def __init__(self, receiver: Receiver, port: int, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", port), _Handler, bind_and_activate=False)
        self.receiver = receiver
        self._context = context
        self._thread: threading.Thread | None = None
        self.server_bind()

    def serve(self) -> None:
        """Serve from a daemon thread."""
        self.server_activate()
        # The handshake happens in the connection's own thread, so a silent client holds up nobody.
        self.socket = self._context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self.serve_forever, name="customers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, if it did, and free the port."""
        if self._thread is not None:
            self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is the sender's business, not the terminal's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        host = self.headers.get("host", "").partition(":")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.send_response(self.server.receiver.handle(host, headers, body))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Stay silent: the demo tells what arrived in its own words."""
