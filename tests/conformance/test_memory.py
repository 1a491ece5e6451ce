"""A worker that runs for weeks keeps nothing of what it did, with DEBUG as well (B162)."""

from typing import Any

import pytest
from django.db import connections

from tests.conformance.consumer import Consumer
from tests.net.servers import reply
from tests.pipeline.conftest import drain
from tests.pipeline.driving import committed, waiting
from webhooks_app.models import Attempt, Endpoint
from webhooks_app.pipeline import engine
from webhooks_app.pipeline.tickets import Deliver, Ticket


class Peek(Ticket):
    """Reads, in the engine's thread, how many statements its connections remember."""

    kept = -1

    def step(self, engine: Any) -> bool:
        self.kept = sum(len(each.queries_log) for each in connections.all(initialized_only=True))
        return True


@committed
@pytest.mark.parametrize("debug", [False, True])
def test_the_engine_forgets_its_statements(
    endpoint: Endpoint, consumer: Consumer, product: Any, settings: Any, debug: bool
):
    """Django keeps the last 9,000 statements with DEBUG; one record may hold half a megabyte of replies."""
    settings.DEBUG = debug
    product(QUEUE="poll")
    consumer.always = reply("500 Oops", b"x" * 4096)
    waiting(endpoint, 3)
    peek = Peek()
    try:
        for ticket in (Deliver([endpoint.pk]), peek):
            engine.engine().submit(ticket)
            ticket.wait()
    finally:
        drain()
    assert Attempt.objects.count() == 3
    assert peek.kept == 0
