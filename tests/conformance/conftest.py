"""A whole product with a consumer at the other end of a real TLS connection, and a clock to move."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.actions.builders import make_endpoint
from tests.conformance.consumer import HOST, Consumer
from tests.conformance.driving import SECRET, emit_event
from tests.conformance.walking import Walk
from tests.net.servers import Authority, Server
from tests.pipeline.conftest import Clock, clock
from webhooks_app.destinations import https
from webhooks_app.models import Endpoint
from webhooks_app.pipeline import doorbell

__all__ = ["clock"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that the product trusts."""
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> Any:
    """The consumer's TLS context."""
    return authority.context(HOST)


@pytest.fixture
def consumer(certificate: Any) -> Iterator[Consumer]:
    """A consumer that says 200 unless told otherwise."""
    made = Consumer(Server, certificate)
    yield made
    made.server.close()


@pytest.fixture(autouse=True)
def product(settings: Any, authority: Authority, consumer: Consumer) -> Iterator[Callable[..., None]]:
    """Let the path run at once, in the test's thread; call it to change further settings of the app."""

    def change(**values: Any) -> None:
        settings.WEBHOOKS = {**settings.WEBHOOKS, **values}
        https.reset()
        doorbell.reset()

    change(
        QUEUE="inline",
        ALLOW_NETWORKS=["127.0.0.0/8"],
        STATIC_HOSTS={"*.customer.com": ["127.0.0.1"]},
        EXTRA_PORTS=[consumer.server.port],
        CA_BUNDLE=str(authority.bundle),
    )
    yield change
    https.transport().close()
    https.reset()
    doorbell.reset()


@pytest.fixture
def endpoint(db: None, product: Any, consumer: Consumer) -> Endpoint:
    """The consumer's endpoint, of the tenant acme; it wants everything."""
    return make_endpoint(url=consumer.url, secret=SECRET)


@pytest.fixture
def emit(django_capture_on_commit_callbacks: Any) -> Callable[..., str]:
    """Return a function that commits an event and lets the path run; it returns the event's id."""

    def commit(data: Any = None, **values: Any) -> str:
        with django_capture_on_commit_callbacks(execute=True):
            return emit_event(data, **values)

    return commit


@pytest.fixture
def walk(
    db: None, product: Any, consumer: Consumer, clock: Clock, django_capture_on_commit_callbacks: Any
) -> Walk:
    """Go along a policy with this consumer and the movable clock."""
    return Walk(consumer, clock, django_capture_on_commit_callbacks)
