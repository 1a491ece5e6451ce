"""Kept connections: reused, replaced when stale, never shared between processes, never tainted."""

import gc
import os
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from webhooks_app.net import limits, pools
from webhooks_app.net.adapter import GuardedAdapter
from webhooks_app.net.http import build_transport
from webhooks_app.net.options import NetOptions

from .sending import HOST, request_to
from .servers import OK, Connection, answers, answers_once, breaks, reply

ROUNDS = 20


class TestStale:
    def test_closed_while_idle(self, serve, transport_to):
        server = serve(answers_once(OK))
        transport = transport_to(server)
        assert all(transport.post(request_to(server)).ok for _ in range(ROUNDS))
        assert len(server.requests) == ROUNDS

    @pytest.mark.parametrize("tls", [False, True])
    @pytest.mark.parametrize("reset", [False, True])
    def test_closed_on_the_next_request(self, serve, transport_to, authority, tls, reset):
        """The worst moment: the request is on its way when the receiver gives the connection up."""

        def behave(connection: Connection) -> None:
            connection.read()
            connection.write(OK)
            connection.socket.recv(1)
            if reset:
                connection.reset()

        server = serve(behave, context=authority.context(HOST) if tls else None)
        transport = transport_to(server)
        assert all(transport.post(request_to(server)).ok for _ in range(ROUNDS))
        assert (server.connections, len(server.requests)) == (ROUNDS, ROUNDS)

    def test_replaced_by_a_new_connection_not_by_another_stale_one(self, serve, transport_to):
        together = threading.Barrier(2)

        def behave(connection: Connection) -> None:
            connection.read()
            if connection.server.connections <= 2:
                together.wait(5)
            connection.write(OK)
            connection.read()

        server = serve(behave)
        transport = transport_to(server)
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(lambda _: transport.post(request_to(server, total_timeout=5)).ok, range(2)))
        assert server.connections == 2
        assert transport.post(request_to(server)).ok
        assert server.connections == 3

    def test_a_replacement_refuses_every_kept_connection(self, serve, transport_to):
        server = serve(answers(OK))
        transport = transport_to(server)
        request = request_to(server)
        assert transport.post(request).ok
        kept = transport._adapter._pools.pool_of(transport._target(request.url)).pool.get()
        budget = limits.Budget(request, NetOptions())
        token = limits.running.set(budget)
        try:
            assert kept.is_connected
            budget.start_afresh()
            assert not kept.is_connected
        finally:
            limits.running.reset(token)
            kept.close()

    def test_replaced_only_once(self, serve, transport_to):
        seen = []

        def behave(connection: Connection) -> None:
            connection.read()
            seen.append(connection)
            if len(seen) == 1:
                connection.write(OK)
                connection.read()

        server = serve(behave)
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        result = transport.post(request_to(server))
        assert (result.error, result.detail) == ("reset", "closed")
        assert server.connections == 2

    def test_not_once_a_byte_of_the_reply_came(self, serve, transport_to):
        def behave(connection: Connection) -> None:
            connection.read()
            connection.write(OK)
            connection.read()
            connection.write(b"HTTP/1.1 200 OK\r\nX-A:")
            connection.reset()

        server = serve(behave)
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        assert transport.post(request_to(server)).error == "reset"
        assert server.connections == 1

    def test_a_fresh_connection_is_not_replaced(self, serve, transport_to):
        server = serve(breaks())
        assert transport_to(server).post(request_to(server)).error == "reset"
        assert server.connections == 1

    def test_a_silent_kept_connection_is_not_replaced(self, serve, transport_to):
        server = serve(answers(OK, b""))
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        assert transport.post(request_to(server, total_timeout=0.2)).error == "timeout"
        assert server.connections == 1


class TestSurplus:
    @pytest.mark.parametrize("extra", [b"HTTP/1.1 500 Smuggled\r\nContent-Length: 0\r\n\r\n", b"x"])
    def test_bytes_in_the_same_piece(self, serve, transport_to, extra):
        server = serve(answers(OK + extra))
        transport = transport_to(server)
        for _ in range(3):
            result = transport.post(request_to(server))
            assert (result.http_status, result.body) == (200, b"ok")
        assert server.connections == 3

    def test_bytes_that_come_later(self, serve, transport_to):
        more, sent = threading.Event(), threading.Event()

        def behave(connection: Connection) -> None:
            connection.read()
            connection.write(OK)
            if connection.server.connections == 1:
                more.wait(5)
                connection.write(b"HTTP/1.1 500 Smuggled\r\nContent-Length: 0\r\n\r\n")
                sent.set()
            connection.until_closed()

        server = serve(behave)
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        more.set()
        assert sent.wait(5)
        assert transport.post(request_to(server)).ok
        assert server.connections == 2

    def test_body_of_a_204(self, serve, transport_to):
        server = serve(answers(reply("204 No Content", b"surprise")))
        transport = transport_to(server)
        for _ in range(2):
            assert transport.post(request_to(server)).body == b""
        assert server.connections == 2


class TestBounds:
    def test_old_connections_are_not_used_again(self, serve, transport_to):
        server = serve(answers(OK))
        transport = transport_to(server, conn_max_age=0.0)
        for _ in range(3):
            assert transport.post(request_to(server)).ok
        assert server.connections == 3

    def test_connection_close_is_honoured(self, serve, transport_to):
        server = serve(answers(reply("200 OK", b"ok", "Connection: close")))
        transport = transport_to(server)
        for _ in range(2):
            assert transport.post(request_to(server)).ok
        assert server.connections == 2

    def test_the_least_used_host_makes_room(self, serve, transport_to, dns):
        server = serve(answers(OK))
        transport = transport_to(server, pools=2)
        for name in ("a.de", "b.de", "c.de", "a.de"):
            dns.answers[name] = [("127.0.0.1",)]
            assert transport.post(request_to(server, url=f"http://{name}:{server.port}/")).ok
        assert server.connections == 4
        assert len(transport._adapter.poolmanager.pools) == 2

    def test_unused_hosts_are_dropped(self, serve, transport_to, dns, monkeypatch):
        monkeypatch.setattr(pools, "_SWEEP_EVERY", 0.0)
        dns.answers["other.de"] = [("127.0.0.1",)]
        closed = threading.Event()

        def behave(connection: Connection) -> None:
            connection.read()
            connection.write(OK)
            connection.until_closed()
            closed.set()

        server = serve(behave)
        transport = transport_to(server, conn_max_age=0.0)
        assert transport.post(request_to(server)).ok
        assert not closed.is_set()
        transport.post(request_to(server, url=f"http://other.de:{server.port}/"))
        gc.collect()
        assert closed.wait(2)
        assert len(transport._adapter.poolmanager.pools) == 1

    def test_close(self, serve, transport_to):
        closed = threading.Event()

        def behave(connection: Connection) -> None:
            connection.read()
            connection.write(OK)
            connection.until_closed()
            closed.set()

        server = serve(behave)
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        transport.close()
        gc.collect()
        assert closed.wait(2)
        assert transport.post(request_to(server)).ok

    def test_guarded_connections_do_not_work_outside_an_attempt(self, serve, transport_to):
        server = serve(answers(OK))
        transport = transport_to(server)
        pool = transport._adapter._pools.pool_of(transport._target(request_to(server).url))
        with pytest.raises(RuntimeError, match="inside an attempt"):
            pool.urlopen("POST", "/", retries=False)
        assert server.connections == 0

    def test_an_unguarded_socket_is_not_written_to(self, serve, transport_to, monkeypatch):
        import socket

        from webhooks_app.net.connections import GuardedConnection

        server = serve(answers(OK))
        plain = socket.create_connection(("127.0.0.1", server.port))
        monkeypatch.setattr(GuardedConnection, "_new_conn", lambda self: plain)
        with pytest.raises(RuntimeError, match="has not seen"):
            transport_to(server).post(request_to(server))
        assert server.requests == []


def test_threads(serve, transport_to):
    def echo(connection: Connection) -> None:
        while True:
            connection.write(reply(body=connection.read()))

    server = serve(echo)
    transport = transport_to(server, per_host=4)

    def work(number: int) -> bool:
        bodies = [f"{number}-{n}".encode() for n in range(20)]
        return all(
            transport.post(request_to(server, body=body, total_timeout=10)).body == body for body in bodies
        )

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(work, range(12)))


@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_fork_shares_no_connection(serve, transport_to, authority):
    server = serve(answers(OK), context=authority.context(HOST))
    transport = transport_to(server)
    assert transport.post(request_to(server)).ok
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        results = [transport.post(request_to(server)) for _ in range(3)]
        os.write(writer, b"y" if all(result.ok for result in results) else b"n")
        os._exit(0)
    os.close(writer)
    assert all(transport.post(request_to(server)).ok for _ in range(3))
    with os.fdopen(reader, "rb") as answer:
        assert answer.read() == b"y"
    os.waitpid(child, 0)
    assert server.connections == 2


@pytest.mark.parametrize("module", ["gevent._socket3", "eventlet.greenio.base"])
def test_greenlet_sockets_are_refused(monkeypatch, module):
    monkeypatch.setattr("socket.socket", type("socket", (), {"__module__": module}))
    with pytest.raises(RuntimeError, match="prefork or threads"):
        build_transport(NetOptions())


def test_an_adapter_sends_only_checked_targets(transport_to):
    import requests

    adapter: GuardedAdapter = transport_to(80)._adapter
    plain = requests.Request("POST", f"http://{HOST}/").prepare()
    with pytest.raises(TypeError, match="checked target"):
        adapter.send(plain)
    with pytest.raises(TypeError, match="checked target"):
        adapter.request_url(plain, {})
    with pytest.raises(TypeError, match="proxies"):
        adapter.proxy_manager_for("http://127.0.0.1:1")


def test_memory_stays_flat_over_many_requests(serve, transport_to):
    server = serve(answers(reply(body=b"x" * 2000)))
    server.requests = _Forgetful()
    transport = transport_to(server)

    def size_after(requests: int) -> int:
        for _ in range(requests):
            assert transport.post(request_to(server, total_timeout=10)).ok
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        warm = size_after(50)
        assert size_after(300) - warm < 20_000
    finally:
        tracemalloc.stop()


class _Forgetful(list):
    """Notes nothing, so that the server's own memory stays flat."""

    def append(self, item: object) -> None:
        pass
