"""A receiver on loopback that keeps what it was sent, and an endpoint that leads there."""

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.actions.builders import make_endpoint
from webhooks_app.models import Endpoint

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


class Receiver(HTTPServer):
    """Takes one kind of answer to give, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 200
        self.control = ""
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []


class Handler(BaseHTTPRequestHandler):
    """Answers every POST."""

    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.server.paths.append(self.path)
        self.send_response(self.server.status)
        self.send_header("content-length", "4")
        if self.server.control:
            self.send_header("webhook-delivery", self.server.control)
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture
def endpoint(receiver: Receiver, network: Any) -> Endpoint:
    network(REQUIRE_HTTPS=False, EXTRA_PORTS=[receiver.server_port])
    url = f"http://hooks.customer.com:{receiver.server_port}/in?token=S3CRET"
    return make_endpoint(url=url, secret=SECRET)
