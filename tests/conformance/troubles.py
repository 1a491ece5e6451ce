"""Every kind of trouble that a request can meet, brought about on purpose."""

import socket
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.conformance.consumer import Consumer
from tests.net.servers import hangs, reply
from webhooks_app.models import Endpoint
from webhooks_app.net import resolver


@dataclass
class Trouble:
    """Each method is named after the error that it leads to."""

    endpoint: Endpoint
    consumer: Consumer
    product: Callable[..., None]
    monkeypatch: pytest.MonkeyPatch

    def status_5xx(self) -> None:
        self.consumer.always = reply("500 Oops")

    def status_4xx(self) -> None:
        self.consumer.always = reply("404 Nothing")

    def status_410(self) -> None:
        self.consumer.always = reply("410 Gone")

    def redirect(self) -> None:
        self.consumer.always = reply("302 Found", b"", "Location: /other")

    def invalid_response(self) -> None:
        self.consumer.answer(b"SSH-2.0-OpenSSH_9.2\r\n", close=True)

    def reset(self) -> None:
        self.consumer.answer(b"", close=True)

    def timeout(self) -> None:
        overrides = {"connect_timeout": 0.4, "total_timeout": 0.4}
        Endpoint.objects.filter(pk=self.endpoint.pk).update(policy_overrides=overrides)
        self.consumer.server.behaviour = hangs

    def tls(self) -> None:
        self._move("hooks.customer.com", "elsewhere.customer.com")

    def connect(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        self.product(EXTRA_PORTS=[port])
        self._move(str(self.consumer.server.port), str(port))

    def dns(self) -> None:
        def unknown(host: str) -> tuple[str, ...]:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is not known")

        self.monkeypatch.setattr(resolver, "system_addresses", unknown)
        self._move(f"hooks.customer.com:{self.consumer.server.port}", "gone.example.com")

    def ssrf_blocked(self) -> None:
        self.product(STATIC_HOSTS={"*.customer.com": ["10.0.0.1"]})

    def invalid_url(self) -> None:
        self._move("https://", "https://user:password@")

    def _move(self, old: str, new: str) -> None:
        """Change the URL behind the product's back, as a row of an older version would be."""
        url = self.endpoint.url.replace(old, new)
        rows = Endpoint.objects.filter(pk=self.endpoint.pk)
        rows.update(url=url, revision=self.endpoint.revision + 1)


KINDS = [name for name in vars(Trouble) if not name.startswith("_")]
