"""The limits of one attempt, and what is known about it while it runs.

The budget of the running attempt is in a context variable, so that sockets and connections far below
`requests` find it.
"""

import sys
from contextvars import ContextVar
from time import monotonic

from .options import NetOptions
from .transport import Request

# The phases of an attempt, in their order: what a failure means depends on how far it had come.
DNS, CONNECT, TLS, SEND, WAIT, BODY = "dns", "connect", "tls", "send", "wait", "body"


class DeadlineExceeded(TimeoutError):
    """The attempt's time is over. A TimeoutError, so that urllib3 takes it for one of its own."""


class TooMuchData(Exception):
    """The receiver sent more than an attempt may read. Not an OSError: nobody may swallow it."""


class Budget:
    """Time and bytes left for one attempt, its phase, and the connection it uses."""

    __slots__ = (
        "bytes_left",
        "connect_timeout",
        "deadline",
        "foreign",
        "fresh_only",
        "options",
        "path",
        "peer",
        "phase",
        "received",
        "reused",
        "started",
        "total_timeout",
    )

    def __init__(self, request: Request, options: NetOptions) -> None:
        self.options = options
        self.started = monotonic()
        self.deadline = self.started + request.total_timeout
        if request.deadline is not None:
            self.deadline = min(self.deadline, request.deadline)
        self.connect_timeout = request.connect_timeout
        self.total_timeout = request.total_timeout
        self.bytes_left = options.max_wire
        self.received = 0
        self.path = "/"
        self.phase = DNS
        self.peer: str | None = None
        self.reused = False
        self.fresh_only = False
        # An exception the caller is handling becomes the context of ours; it says nothing about us.
        self.foreign = sys.exc_info()[1]

    def left(self) -> float:
        """Seconds left, always more than 0. Raises DeadlineExceeded."""
        left = self.deadline - monotonic()
        if left <= 0:
            raise DeadlineExceeded("the attempt's time is over")
        return left

    def count(self, received: int) -> None:
        """Note received bytes. Raises TooMuchData."""
        self.received += received
        self.bytes_left -= received
        if self.bytes_left < 0:
            raise TooMuchData("the reply is too large")

    def start_body(self) -> None:
        """The status is known: the body gets a short leash of its own."""
        self.phase = BODY
        self.deadline = min(self.deadline, monotonic() + self.options.body_timeout)

    def start_afresh(self) -> None:
        """Try again on a new connection, with what is left of the time."""
        self.phase = DNS
        self.peer = None
        self.reused = False
        self.fresh_only = True

    def duration_ms(self) -> int:
        """Milliseconds since the attempt began."""
        return round((monotonic() - self.started) * 1000)


running: ContextVar[Budget | None] = ContextVar("webhooks_attempt", default=None)


def current() -> Budget:
    """Return the running attempt's budget. Raises RuntimeError outside: nothing is sent without limits."""
    budget = running.get()
    if budget is None:
        raise RuntimeError("guarded connections work only inside an attempt of a transport")
    return budget
