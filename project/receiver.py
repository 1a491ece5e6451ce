"""A receiver to play with: `python -m project.receiver PORT`. It checks no signature; yours has to.

POST /anything       takes a message and answers with the status that was last set, 200 at first
PUT  /answer/STATUS  from now on
GET  /               everything that came, refused or taken, oldest first; GET /anything: to that path only
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Listens on loopback; keeps what came in memory."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer = 200
        self.lock = threading.Lock()
        self.messages: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        event = json.loads(self._body())
        with self.server.lock:
            answer = self.server.answer
            self.server.messages.append(
                {
                    "path": self.path,
                    "webhook-id": self.headers["webhook-id"],
                    "attempt": int(self.headers["webhook-attempt"]),
                    "type": event["type"],
                    "data": event["data"],
                    "answer": answer,
                }
            )
        self._reply(answer)

    def do_PUT(self) -> None:
        self._body()
        self.server.answer = int(self.path.removeprefix("/answer/"))
        self._reply(204)

    def do_GET(self) -> None:
        with self.server.lock:
            found = [each for each in self.server.messages if self.path in ("/", each["path"])]
        self._reply(200, json.dumps(found, separators=(",", ":")).encode() + b"\n")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", "0")))

    def _reply(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


if __name__ == "__main__":
    Receiver(int(sys.argv[1])).serve_forever()
