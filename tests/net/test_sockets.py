"""The sockets themselves."""

import time

import pytest

from webhooks_app.net.sockets import GuardedSocket, dial

from .servers import OK, answers


def soon() -> float:
    return time.monotonic() + 1


@pytest.mark.parametrize(("method", "address"), [("getpeername", "127.0.0.9"), ("getsockname", "127.0.0.1")])
def test_somebody_else_or_oneself_is_no_peer(serve, monkeypatch, method, address):
    server = serve(answers(OK))
    monkeypatch.setattr(GuardedSocket, method, lambda self: (address, server.port))
    with pytest.raises(ConnectionRefusedError):
        dial(["127.0.0.1"], server.port, until=soon())


def test_a_connection_reset_at_once(serve, monkeypatch):
    def gone(connection):
        raise OSError("not connected")

    server = serve(answers(OK))
    monkeypatch.setattr(GuardedSocket, "getpeername", gone)
    with pytest.raises(ConnectionResetError):
        dial(["127.0.0.1"], server.port, until=soon())


def test_no_time_and_no_address():
    for addresses, until in (([], soon()), (["127.0.0.1"], 0.0)):
        with pytest.raises(TimeoutError):
            dial(addresses, 1, until=until)


def test_the_last_error_is_told(serve):
    server = serve(answers(OK))
    server.close()
    with pytest.raises(ConnectionRefusedError):
        dial(["127.0.0.1", "127.0.0.2"], server.port, until=soon())


def test_a_socket_without_budget_is_an_ordinary_one(serve):
    server = serve(answers(OK))
    with dial(["127.0.0.1"], server.port, until=soon()) as connection:
        connection.settimeout(1)
        assert connection.send(b"POST / HTTP/1.1\r\n") == 17
        connection.sendall(b"Content-Length: 0\r\n\r\n")
        buffer = bytearray(100)
        assert bytes(buffer[: connection.recv_into(buffer)]).startswith(b"HTTP/1.1 200")
