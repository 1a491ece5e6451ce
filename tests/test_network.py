"""The suite's own guard against leaving the machine."""

import socket

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 443), ("93.184.216.34", 80)])
def test_foreign_connection_is_refused_and_noted(loopback_only: list[str], address: tuple[str, int]):
    with socket.socket() as connection, pytest.raises(OSError, match="loopback"):
        connection.connect(address)
    assert loopback_only == [f"connection to {address[0]}"]
    loopback_only.clear()


def test_foreign_look_up_is_refused_and_noted(loopback_only: list[str]):
    with pytest.raises(OSError, match="look-up"):
        socket.getaddrinfo("example.com", 443)
    assert loopback_only == ["look-up of example.com"]
    loopback_only.clear()


def test_loopback_is_allowed(loopback_only: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()[:2], timeout=2).close()
    assert loopback_only == []
