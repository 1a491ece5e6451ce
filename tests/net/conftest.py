"""A server that lives as long as its test, a fake DNS, and transports with short limits."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhooks_app.core.ssrf import Rules
from webhooks_app.net import resolver
from webhooks_app.net.http import HttpTransport, build_transport
from webhooks_app.net.options import NetOptions

from .sending import HOST, LOOPBACK
from .servers import Authority, Behaviour, Server


class FakeDns:
    """Answers by name: a list of answers, the last one again and again. Remembers who was asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[str, ...]]] = {HOST: [("127.0.0.1",)]}
        self.asked: list[str] = []

    def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        left = self.answers[host]
        return left.pop(0) if len(left) > 1 else left[0]


@pytest.fixture(autouse=True)
def dns(monkeypatch: pytest.MonkeyPatch) -> FakeDns:
    """The only resolver of these tests."""
    fake = FakeDns()
    monkeypatch.setattr(resolver, "system_addresses", fake)
    return fake


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Start servers that are closed after the test."""
    servers: list[Server] = []

    def start(behaviour: Behaviour, **kwargs: Any) -> Server:
        servers.append(Server(behaviour, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority every transport of these tests trusts."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def transport_to(authority: Authority) -> Iterator[Callable[..., HttpTransport]]:
    """Build transports for the ports of some servers; loopback is allowed, limits are short."""
    transports: list[HttpTransport] = []

    def build(*ports: Server | int, **options: Any) -> HttpTransport:
        numbers = tuple(port if isinstance(port, int) else port.port for port in ports)
        rules = Rules(schemes=("http", "https"), ports=numbers, allow_networks=LOOPBACK)
        values: dict[str, Any] = {"rules": rules, "ca_bundle": str(authority.bundle), "body_timeout": 0.3}
        transport = build_transport(NetOptions(**values | options))
        assert isinstance(transport, HttpTransport)
        transports.append(transport)
        return transport

    yield build
    for transport in transports:
        transport.close()
