"""urllib3 connections that dial verified addresses only.

The HOST NAME stays everywhere above the socket: in the pool's key, the Host header, SNI and the
certificate check. Keeping connections by host is safe because only verified sockets enter a pool.
"""

import http.client
import logging
import re
import socket
from time import monotonic
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from . import guard, limits
from .sockets import GuardedSocket, dial

_MAX_LINE = 65_536
_ENDS_OF_HEAD = (b"\r\n", b"\n", b"")
_STATUS_LINE = re.compile(rb"(HTTP/1\.[0-9]) ([1-9][0-9]{2})(?: ([^\r\n]*))?\r?\n")


class StrictReply(http.client.HTTPResponse):
    """Takes three-digit statuses only (RFC 9112 4), and notices bytes after the end of the answer."""

    def __init__(self, sock: GuardedSocket, *args: Any, **kwargs: Any) -> None:
        self._socket = sock
        super().__init__(sock, *args, **kwargs)

    def _read_status(self) -> tuple[str, int, str]:
        """Return the first status that is final, or 100 and 101, which http.client and we know about."""
        while True:
            version, status, reason = self._read_status_line()
            if not 102 <= status <= 199:
                return version, status, reason
            # RFC 9110 15.2: others are interim, whatever they say; the attempt's limits hold for them too.
            while self.fp.readline(_MAX_LINE + 1) not in _ENDS_OF_HEAD:
                pass

    def _read_status_line(self) -> tuple[str, int, str]:
        line = self.fp.readline(_MAX_LINE + 1)
        if not line:
            raise http.client.RemoteDisconnected("closed without an answer")
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            raise http.client.BadStatusLine("not an HTTP/1 status line")
        return match[1].decode(), int(match[2]), (match[3] or b"").decode("latin-1")

    def _close_conn(self) -> None:
        self._socket.note_surplus(self.fp)
        super()._close_conn()  # type: ignore[misc]


class GuardedConnection(HTTPConnection):
    """Resolves, checks and dials when it is opened, and hands the attempt's budget to its socket."""

    response_class = StrictReply
    _born = 0.0
    _peer: str | None = None
    _pending: list[bytes] | None = None

    def _new_conn(self) -> socket.socket:
        budget = limits.current()
        budget.phase = limits.DNS
        addresses = guard.verified_addresses(self.host, budget.options, timeout=budget.left())
        budget.phase = limits.CONNECT
        until = min(monotonic() + budget.connect_timeout, budget.deadline)
        try:
            connection = dial(addresses, self.port, until=until)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, "connect timed out") from error
        except OSError as error:
            raise NewConnectionError(self, "connect failed") from error
        budget.phase = limits.TLS
        connection.settimeout(max(0.001, until - monotonic()))
        self._born = monotonic()
        budget.peer = self._peer = connection.peer
        return connection

    @property
    def is_connected(self) -> bool:
        """Whether the pool may use this connection again: urllib3 asks before it does."""
        if not isinstance(self.sock, GuardedSocket) or self.sock.spoiled:
            return False
        budget = limits.current()
        if budget.fresh_only or monotonic() - self._born > budget.options.conn_max_age:
            return False
        return super().is_connected

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        """Send head and body in one piece, to exactly the path the URL has: urllib3 would re-encode it."""
        budget = limits.current()
        if self.sock is None:
            self.connect()
        else:
            budget.reused = budget.peer is None
            budget.peer = self._peer
        if not isinstance(self.sock, GuardedSocket):
            self.close()
            raise RuntimeError("urllib3 opened a connection the guard has not seen")
        self.sock.budget = budget
        budget.phase = limits.SEND
        self._pending = []
        super().request(method, budget.path, *args, **kwargs)
        pending, self._pending = b"".join(self._pending), None
        self.sock.sendall(pending)
        budget.phase = limits.WAIT

    def send(self, data: Any) -> None:
        """Collect what `request` sends."""
        if self._pending is None:
            super().send(data)
        else:
            self._pending.append(bytes(data))


class GuardedTLSConnection(GuardedConnection, HTTPSConnection):
    """The same for https: the handshake happens on the verified socket, for the host's name."""


class _SilentInAttempts(logging.Filter):
    """urllib3 logs URLs with their query, which may hold a secret; the attempt's record has the facts."""

    def filter(self, record: logging.LogRecord) -> bool:
        return limits.running.get() is None


_silent = _SilentInAttempts()
for _name in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_name).addFilter(_silent)
