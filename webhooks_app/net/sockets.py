"""Sockets that obey the attempt's limits, and the dialling of verified addresses.

Limits sit here, below HTTP: status line, headers, interim answers, chunk framing and body are bounded
by time and by bytes alike, whatever the libraries above do.
"""

import errno
import io
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from time import monotonic
from typing import Any

from .limits import Budget


class GuardedSocket(socket.socket):
    """A socket whose every read and write gets what is left of the attempt's time and bytes."""

    budget: Budget | None = None
    peer: str | None = None
    spoiled = False
    _muted = False

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read, within the budget."""
        if self._muted:
            raise BlockingIOError(errno.EAGAIN, "muted")
        if self.budget is None:
            return super().recv_into(buffer, nbytes or len(buffer), flags)
        self.settimeout(self.budget.left())
        received = super().recv_into(buffer, nbytes or len(buffer), flags)
        self.budget.count(received)
        return received

    def send(self, data: Any, flags: int = 0) -> int:
        """Write, within the budget."""
        if self.budget is not None:
            self.settimeout(self.budget.left())
        return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Write everything, within the budget: plain sockets take one timeout for the whole call."""
        if self.budget is not None:
            self.settimeout(self.budget.left())
        super().sendall(data, flags)

    def note_surplus(self, reader: io.BufferedReader) -> None:
        """Mark the connection as spoiled when `reader` holds bytes that no answer asked for."""
        self._muted = True
        try:
            self.spoiled = self.spoiled or bool(reader.peek(1))
        except OSError:
            self.spoiled = True
        finally:
            self._muted = False


class GuardedSSLSocket(GuardedSocket, ssl.SSLSocket):  # type: ignore[misc]
    """The same for TLS; the handshake is bounded by the timeout the socket has when it begins."""


def dial(addresses: Sequence[str], port: int, *, until: float) -> GuardedSocket:
    """Connect to the first of `addresses` that answers, all of them sharing the time `until` a moment.

    `until` is a `time.monotonic()` value. Raises OSError: TimeoutError when the time is over, else the
    last address's error.
    """
    error: OSError = TimeoutError("no time left to connect")
    for index, address in enumerate(addresses):
        left = until - monotonic()
        if left <= 0:
            break
        try:
            return _connected(address, port, timeout=left / (len(addresses) - index))
        except OSError as failure:
            error = failure
    raise error


def _connected(address: str, port: int, *, timeout: float) -> GuardedSocket:
    family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6
    connection = GuardedSocket(family, socket.SOCK_STREAM)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(timeout)
        connection.connect((address, port))
        _check_peer(connection, address)
        connection.peer = address
    except BaseException:
        connection.close()
        raise
    return connection


def _check_peer(connection: socket.socket, address: str) -> None:
    """The peer is the verified address, and not ourselves (a loopback port can connect to itself)."""
    try:
        peer, own = connection.getpeername()[:2], connection.getsockname()[:2]
    except OSError as error:
        raise ConnectionResetError(errno.ECONNRESET, "reset while connecting") from error
    if ip_address(peer[0]) != ip_address(address) or peer == own:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to somebody else")
