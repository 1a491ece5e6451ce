"""Settings and observers for the tests of the actions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.actions.receiving import endpoint, receiver
from webhooks_app.actions import key_ranges
from webhooks_app.destinations import https
from webhooks_app.pipeline import doorbell, pace

__all__ = ["endpoint", "network", "receiver", "rung"]

NETWORK = {
    "ALLOW_NETWORKS": ["127.0.0.0/8"],
    "STATIC_HOSTS": {"*.customer.com": ["127.0.0.1"], "hooks.private.com": ["10.0.0.1"]},
    "QUEUE": "poll",
}


@pytest.fixture(autouse=True)
def network(settings: Any) -> Iterator[Callable[..., None]]:
    """Names that resolve without DNS; call it to change further settings of the app."""

    def change(**values: Any) -> None:
        settings.WEBHOOKS = {**settings.WEBHOOKS, **values}
        https.reset()

    change(**NETWORK)
    yield change
    https.reset()


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The endpoints that the doorbell was rung for, after commits."""
    woken: list[int] = []
    monkeypatch.setattr(doorbell, "ring", lambda *, endpoint_ids=(), **_: woken.extend(endpoint_ids))
    return woken


@pytest.fixture(autouse=True)
def no_live_work() -> Iterator[None]:
    """What one test saw of live work is not the next one's."""
    yield
    pace.reset()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is what there is to do, not what a busy machine can do in half a second."""
    monkeypatch.setattr(key_ranges, "PATIENCE", 60.0)
