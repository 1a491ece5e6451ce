"""The interface of every transport: one request in, one `AttemptResult` out."""

from dataclasses import dataclass
from typing import Protocol

from ..core.attempt import AttemptResult


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Times in seconds, sizes in bytes.

    headers: rows as sent. Host, Content-Length and Accept-Encoding belong to the transport; names that
        would change the framing, and cookies, are refused. User-Agent is added when absent.
    connect_timeout: for the TCP connection and the TLS handshake together.
    total_timeout: for everything, from the look-up to the last byte that is read.
    reply_bytes: how much of the reply's body is kept; no more is read.
    deadline: `time.monotonic()` value after which the attempt must have ended, if that is earlier.
    """

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connect_timeout: float
    total_timeout: float
    reply_bytes: int
    method: str = "POST"
    deadline: float | None = None


class Transport(Protocol):
    """Sends requests for a whole process: safe to share between threads and across forks."""

    def post(self, request: Request) -> AttemptResult:
        """Send one request, and tell what happened; what goes wrong on the network is a result too."""

    def close(self) -> None:
        """Close the idle connections. The transport stays usable."""
