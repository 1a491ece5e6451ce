"""Requests of the transport's tests."""

from typing import Any

from webhooks_app.net.transport import Request

from .servers import Server

HOST = "hooks.customer.com"
LOOPBACK = ("127.0.0.0/8", "::1/128")
HEADERS = (("Content-Type", "application/json"), ("webhook-id", "evt_1"))


def request_to(server: Server | int, path: str = "/in", **changes: Any) -> Request:
    """A request to HOST at the server's port."""
    port = server if isinstance(server, int) else server.port
    scheme = "https" if isinstance(server, Server) and server.context is not None else "http"
    values: dict[str, Any] = {
        "url": f"{scheme}://{HOST}:{port}{path}",
        "headers": HEADERS,
        "body": b'{"a":1}',
        "connect_timeout": 0.5,
        "total_timeout": 0.6,
        "reply_bytes": 4096,
    }
    return Request(**values | changes)
