"""The whole schedule with a moved clock: what is printed is what happens (B110, SW-21)."""

import logging
import re
import socket
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.actions.builders import make_endpoint
from tests.conformance.consumer import HOST, Consumer
from tests.conformance.driving import attempts, delivery, let_due
from tests.net.servers import reply
from tests.pipeline.conftest import Clock
from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.net import resolver
from webhooks_app.pipeline import inline

Emit = Callable[..., str]
ROOT = Path(__file__).parents[2]
UNITS = {"s": 1, "min": 60, "h": 3600}


def printed(page: str) -> list[float]:
    """Return the waits that a page of the documentation prints, in seconds."""
    text = re.sub(r"\s+", " ", (ROOT / page).read_text("utf-8"))
    found = re.search(r"30 s(?:,| \|).*?19 h", text)
    assert found, f"{page} does not print the schedule"
    return [int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+) (s|min|h)\b", found[0])]


@pytest.mark.parametrize("page", ["README.md", "docs/howto/receive.md"])
def test_thirteen_attempts_as_printed(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, page: str
):
    consumer.always = reply("500 Oops")
    emit()
    while delivery().state == "pending":
        let_due(clock)
    made = attempts()
    waits = [(later.created_at - earlier.created_at).total_seconds() for earlier, later in pairwise(made)]
    assert len(waits) == len(printed(page)) == 12
    for wait, nominal in zip(waits, printed(page), strict=True):
        assert 0.9 * nominal <= wait <= 1.1 * nominal + 2
    assert 65 * 3600 < sum(waits) < 80 * 3600
    assert [attempt.number for attempt in made] == list(range(1, 14))
    assert [attempt.status for attempt in made] == ["failed"] * 12 + ["dead"]
    assert (delivery().state, delivery().last_error, delivery().due_at) == ("exhausted", "status_5xx", None)
    assert len(set(waits)) > 6, "there is no jitter"


def test_the_end_is_one_warning_and_nothing_follows(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, caplog: pytest.LogCaptureFixture
):
    consumer.always = reply("500 Oops")
    with caplog.at_level(logging.WARNING):
        emit()
        while delivery().state == "pending":
            let_due(clock)
        clock.advance(days=3)
        inline.tick_once()
        inline.deliver([endpoint.pk])
    (line,) = [record for record in caplog.records if record.name == "webhooks_app.deliveries"]
    assert "ended as exhausted after 13 attempts: status_5xx" in line.getMessage()
    assert len(consumer.requests) == 13
    assert EndpointState.objects.get().enabled, "thirteen failures disable nobody"


def test_an_endpoint_may_have_its_own_waits(db: None, emit: Emit, consumer: Consumer, clock: Clock):
    make_endpoint(url=consumer.url, policy_overrides={"waits": [5, 50], "jitter": 0})
    consumer.always = reply("500 Oops")
    emit()
    while delivery().state == "pending":
        let_due(clock)
    first, second, third = (attempt.created_at for attempt in attempts())
    assert 5 <= (second - first).total_seconds() < 6
    assert 50 <= (third - second).total_seconds() < 51


def test_many_that_fail_together_do_not_come_back_together(
    endpoint: Endpoint, emit: Emit, consumer: Consumer
):
    """B125."""
    consumer.always = reply("500 Oops")
    for _ in range(30):
        emit()
    moments = [row.due_at.timestamp() for row in Delivery.objects.all() if row.due_at]
    assert max(moments) - min(moments) > 3


def test_a_name_that_does_not_resolve_is_tried_again(
    endpoint: Endpoint,
    emit: Emit,
    consumer: Consumer,
    clock: Clock,
    product: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
):
    """B092: not found, then a server failure, then good."""
    answers: list[Any] = [
        socket.gaierror(socket.EAI_NONAME, "no"),
        socket.gaierror(socket.EAI_AGAIN, "later"),
        ("127.0.0.1",),
    ]

    def look_up(host: str) -> tuple[str, ...]:
        assert host == HOST
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(resolver, "system_addresses", look_up)
    product(STATIC_HOSTS={})
    emit()
    let_due(clock)
    let_due(clock)
    said = [(attempt.error, attempt.detail) for attempt in attempts()]
    assert said == [("dns", "not_found"), ("dns", "temporary"), ("", "")]
    assert (delivery().state, len(consumer.requests)) == ("delivered", 1)


def test_a_worker_that_was_away_sends_at_once(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """B016, B046: overdue since hours, and signed with the present."""
    consumer.answer(reply("500 Oops"))
    emit()
    clock.advance(hours=5)
    inline.tick_once()
    first, second = consumer.requests
    age = int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"])
    assert 5 * 3600 - 5 < age < 5 * 3600 + 60
    assert delivery().state == "delivered"
