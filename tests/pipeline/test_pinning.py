"""Where the engine's threads run."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from webhooks_app.pipeline.engine import Engine
from webhooks_app.pipeline.tickets import Ticket

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores can be chosen on Linux only"),
]


class Asking(Ticket):
    """Notes where the engine, and a thread it starts, may run."""

    cores: set[int]

    def step(self, engine: Engine) -> bool:
        self.cores = set(os.sched_getaffinity(0))
        return True


def cores_of(pump: Callable[[], Engine]) -> set[int]:
    ticket = Asking()
    pump().submit(ticket)
    ticket.wait()
    return ticket.cores


def test_it_may_use_every_core(pump: Callable[[], Engine]):
    assert cores_of(pump) == os.sched_getaffinity(0)


def test_it_stays_on_one_where_asked_to(pump: Callable[[], Engine], configure: Callable[..., Any]):
    configure(PIN_TO_CORE=True)
    mine = os.sched_getaffinity(0)
    (core,) = cores_of(pump)
    assert core in mine
    assert os.sched_getaffinity(0) == mine
