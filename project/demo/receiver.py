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
    """One request as a customer saw it. `verified`: the official library accepts signature and time."""

    host: str
    event: dict[str, Any]
    attempt: int
    verified: bool
    answer: int


class Receiver:
    """Answers for all customers, told apart by host name.

    Args:
        port: loopback port to listen on.
        certificate: PEM file with key and chain for the customers' names.
        on_arrival: called from the server's threads with every arrival.
    """

    def __init__(self, port: int, certificate: Path, on_arrival: Callable[[Arrival], None]) -> None:
        self.port = port
        self.secrets: dict[str, str] = {}
        self.refusals: dict[str, int] = {}
        self._arrivals: list[Arrival] = []
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._on_arrival = on_arrival
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.receiver = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake happens in the connection's own thread, so a silent client holds up nobody.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def start(self) -> None:
        """Serve from a daemon thread."""
        threading.Thread(target=self._server.serve_forever, name="customers", daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def arrivals(self) -> list[Arrival]:
        """Return every request so far, oldest first."""
        with self._lock:
            return list(self._arrivals)

    def handle(self, host: str, headers: dict[str, str], body: bytes) -> int:
        """Check a message and return the HTTP status that the customer answers."""
        verified = self._verified(host, headers, body)
        with self._lock:
            message = host, headers.get("webhook-id", "")
            self._seen[message] += 1
            answer = BROKEN if self._seen[message] <= self.refusals.get(host, 0) else 200
        arrival = Arrival(
            host=host,
            event=json.loads(body) if verified else {},
            attempt=int(headers.get("webhook-attempt", "0")),
            verified=verified,
            answer=answer if verified else FORGED,
        )
        with self._lock:
            self._arrivals.append(arrival)
        self._on_arrival(arrival)
        return arrival.answer

    def _verified(self, host: str, headers: dict[str, str], body: bytes) -> bool:
        try:
            Webhook(self.secrets[host]).verify(body, headers)
        except (KeyError, ValueError, WebhookVerificationError):
            return False
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: Receiver

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
