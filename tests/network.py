"""Keeps tests on loopback: refuses every other connection and look-up, and remembers the attempt."""

import ipaddress
import socket
from typing import Any

attempts: list[str] = []


def is_local(host: object) -> bool:
    """Whether an address or name stays on this machine; names other than localhost do not."""
    if host is None or host in {"", "localhost", b"localhost"}:
        return True
    try:
        address = ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse(what: str) -> None:
    attempts.append(what)
    raise OSError(f"tests stay on loopback: {what}")


def install() -> None:
    """Replace the socket calls that leave the machine, for the whole process."""
    real_connect, real_connect_ex = socket.socket.connect, socket.socket.connect_ex
    real_lookup = socket.getaddrinfo

    def check(connection: socket.socket, address: Any) -> None:
        # Connecting a datagram socket sends nothing: the guard asks the kernel for the route that way.
        inet = connection.family in {socket.AF_INET, socket.AF_INET6} and connection.type != socket.SOCK_DGRAM
        if inet and not is_local(address[0]):
            _refuse(f"connection to {address[0]}")

    def connect(self: socket.socket, address: Any) -> None:
        check(self, address)
        return real_connect(self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        check(self, address)
        return real_connect_ex(self, address)

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_literal(host) and not is_local(host):
            _refuse(f"look-up of {host}")
        return real_lookup(host, *args, **kwargs)

    socket.socket.connect = connect  # type: ignore[method-assign]
    socket.socket.connect_ex = connect_ex  # type: ignore[method-assign]
    socket.getaddrinfo = getaddrinfo


def _is_literal(host: object) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True
