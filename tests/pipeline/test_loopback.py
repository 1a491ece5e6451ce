"""The whole path against real receivers on loopback."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import standardwebhooks

from tests.net.servers import Behaviour, Connection, Server, answers, breaks, reply
from webhooks_app.destinations import https
from webhooks_app.models import Delivery, Endpoint
from webhooks_app.net import resolver
from webhooks_app.pipeline import runner
from webhooks_app.pipeline.engine import Engine

from .conftest import Clock, Worker
from .driving import attempts_of, check_books, committed, run_path, waiting
from .factories import SECRET, EndpointFactory, emit_for

HOST = "hooks.customer.com"


@pytest.fixture
def serve(configure: Callable[..., None]) -> Iterator[Callable[..., Server]]:
    """Start receivers and let endpoints reach them."""
    servers: list[Server] = []

    def start(behaviour: Behaviour) -> Server:
        servers.append(Server(behaviour))
        configure(
            REQUIRE_HTTPS=False,
            STATIC_HOSTS={HOST: ["127.0.0.1"]},
            ALLOW_NETWORKS=["127.0.0.0/8"],
            EXTRA_PORTS=[server.port for server in servers],
        )
        https.reset()
        return servers[-1]

    yield start
    for server in servers:
        server.close()
    https.reset()


def endpoint_at(server: Server, **values: Any) -> Endpoint:
    return EndpointFactory(url=f"http://{HOST}:{server.port}/hook?x=1", **values)


def hangs(connection: Connection) -> None:
    connection.read()
    connection.until_closed()


def only_attempt() -> Any:
    (row,) = attempts_of(Delivery.objects.get())
    return row


@pytest.mark.django_db
def test_a_delivery_over_a_socket(serve: Callable[..., Server]):
    """B062, B067, B116"""
    server = serve(answers(reply(body=b"thanks")))
    endpoint = endpoint_at(server)
    emit_for(endpoint, data={"text": "😊 \u2028 \x1b"})
    run_path()
    ((head, body),) = server.requests
    first, *rows = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    assert first == "POST /hook?x=1 HTTP/1.1"
    assert headers["host"] == f"{HOST}:{server.port}"
    assert headers["content-length"] == str(len(body))
    assert headers["accept-encoding"] == "identity"
    standardwebhooks.Webhook(SECRET).verify(body, headers)
    row = only_attempt()
    assert (row.status, row.http_status, row.target_ip) == ("succeeded", 200, "127.0.0.1")
    assert bytes(row.reply_body) == b"thanks"
    assert row.url == f"http://{HOST}:{server.port}/hook"
    check_books()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("behaviour", "error", "status"),
    [
        (hangs, "timeout", None),
        (breaks(), "reset", None),
        (breaks(reset=True), "reset", None),
        (answers(b"SSH-2.0-x\r\n\r\n"), "invalid_response", None),
        (answers(reply("302 Found", b"", "Location: /elsewhere")), "redirect", 302),
        (answers(reply("503 Busy", b"later", "Retry-After: 100")), "status_5xx", 503),
    ],
)
def test_one_request_on_the_wire_per_attempt(
    behaviour: Behaviour, error: str, status: int | None, serve: Callable[..., Server], clock: Clock
):
    """B084, B098, B101, B102"""
    server = serve(behaviour)
    endpoint = endpoint_at(server, policy_overrides={"total_timeout": 0.3, "connect_timeout": 0.3})
    (delivery,) = waiting(endpoint)
    run_path()
    row = only_attempt()
    assert (row.error, row.http_status) == (error, status)
    assert len(server.requests) == 1
    clock.advance(minutes=3)
    run_path()
    assert len(server.requests) == 2
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.last_error) == ("pending", 2, error)
    check_books()


@pytest.mark.django_db
def test_a_closed_port_is_a_failed_attempt(serve: Callable[..., Server]):
    server = serve(answers(reply()))
    server.close()
    waiting(endpoint_at(server))
    run_path()
    assert only_attempt().error == "connect"


@pytest.mark.django_db
def test_an_address_that_is_refused_is_never_dialled(
    serve: Callable[..., Server], configure: Callable[..., None], loopback_only: list[str]
):
    server = serve(answers(reply()))
    configure(STATIC_HOSTS={HOST: ["10.1.2.3"]}, ALLOW_NETWORKS=[])
    https.reset()
    waiting(endpoint_at(server))
    run_path()
    row = only_attempt()
    assert (row.error, row.target_ip) == ("ssrf_blocked", None)
    assert not server.connections
    assert not loopback_only


@pytest.mark.django_db
def test_a_name_that_does_not_resolve_is_tried_again(
    serve: Callable[..., Server],
    configure: Callable[..., None],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
):
    """B092"""
    server = serve(answers(reply()))
    configure(STATIC_HOSTS={})
    https.reset()
    known = []

    def look_up(host: str) -> tuple[str, ...]:
        if not known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return ("127.0.0.1",)

    monkeypatch.setattr(resolver, "system_addresses", look_up)
    (delivery,) = waiting(endpoint_at(server))
    for _ in range(2):
        run_path()
        clock.advance(minutes=10)
    known.append(1)
    run_path()
    assert [row.error for row in attempts_of(delivery)] == ["dns", "dns", ""]


@pytest.mark.django_db
def test_a_connection_is_used_again_and_a_stale_one_costs_no_attempt(serve: Callable[..., Server]):
    """B103"""
    closed = threading.Event()

    def polite(connection: Any) -> None:
        connection.read()
        connection.write(reply())
        connection.read()
        connection.write(reply())
        connection.socket.shutdown(socket.SHUT_RDWR)
        closed.set()

    server = serve(polite)
    endpoint = endpoint_at(server)
    for _ in range(2):
        waiting(endpoint)
        run_path()
    assert server.connections == 1
    assert closed.wait(5)
    waiting(endpoint)
    run_path()
    assert server.connections == 2
    assert set(Delivery.objects.values_list("attempts", "state")) == {(1, "delivered")}


@committed
def test_an_engine_delivers_over_sockets_beside_a_hanging_receiver(
    worker: Worker, serve: Callable[..., Server], until: Callable[..., None]
):
    """B122, B136"""
    hanging, healthy = serve(hangs), serve(answers(reply()))
    limits = {"total_timeout": 1, "connect_timeout": 1}
    slow, quick = (endpoint_at(server, policy_overrides=limits) for server in (hanging, healthy))
    emit_for(slow, 4)
    emit_for(quick, 30)
    until(lambda: len(healthy.requests) == 30)
    until(lambda: Delivery.objects.filter(endpoint=quick, state="delivered").count() == 30)
    until(lambda: Delivery.objects.filter(endpoint=slow, last_error="timeout").count() == 4)
    check_books()


@committed
def test_a_task_delivers_over_sockets(
    pump: Callable[[], Engine], serve: Callable[..., Server], until: Callable[..., None]
):
    server = serve(answers(reply()))
    endpoint = endpoint_at(server, state__window=30)
    waiting(endpoint, 30)
    runner.deliver([endpoint.pk])
    until(lambda: Delivery.objects.filter(state="delivered").count() == 30)
    assert len(server.requests) == 30
    assert server.connections <= 30
