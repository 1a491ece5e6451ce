"""Retry-After, through the whole path: how long the delivery waits, and who else waits with it (B106)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.conformance.consumer import Consumer
from tests.conformance.driving import attempts, delivery, let_due, now
from tests.net.servers import reply
from tests.pipeline.conftest import Clock
from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import inline

pytestmark = pytest.mark.once

Emit = Callable[..., str]
SCHEDULE = (27, 33)
DAY = 86_400
DATES = {
    "fixdate": "%a, %d %b %Y %H:%M:%S GMT",
    "rfc850": "%A, %d-%b-%y %H:%M:%S GMT",
    "asctime": "%a %b %e %H:%M:%S %Y",
}


def busy(status: int, value: str | bytes) -> bytes:
    """Return an answer with Retry-After, its bytes as given."""
    raw = value.encode() if isinstance(value, str) else value
    return reply(f"{status} Busy", b"", "Retry-After: @").replace(b"@", raw)


def wait() -> float:
    """Return the seconds from the last attempt until the next."""
    due_at = delivery().due_at
    assert due_at is not None
    assert attempts()[-1].next_attempt_at == due_at
    return (due_at - attempts()[-1].created_at).total_seconds()


@pytest.mark.parametrize(
    ("status", "value", "least", "most"),
    [
        (429, "120", 120, 120),
        (503, "120", 120, 120),
        (500, "120", 120, 120),
        (404, "120", 120, 120),
        (302, "120", 120, 120),
        (503, "1", *SCHEDULE),
        (503, "0", *SCHEDULE),
        (429, "-1", *SCHEDULE),
        (429, "1.5", *SCHEDULE),
        (429, "abc", *SCHEDULE),
        (429, "120, 240", *SCHEDULE),
        (429, b"\xff\xfe", *SCHEDULE),  # B075
        (429, "9999999999", DAY, DAY),
        (429, "9" * 300, DAY, DAY),
        (429, "9" * 900, *SCHEDULE),
        (503, "Fri, 31 Dec 9999 23:59:59 GMT", DAY, DAY),
        (503, "Thu, 22 Oct 2020 10:02:00 GMT", *SCHEDULE),
        (204, "120", 0, 0),
    ],
    ids=lambda value: str(value)[:20],
)
def test_it_makes_the_wait_longer_and_never_shorter(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, status: int, value: Any, least: float, most: float
):
    """B106, RA-1, RA-3, RA-4, RA-5, RA-7: the longer of both waits, at most a day; nonsense is ignored."""
    consumer.answer(busy(status, value))
    emit()
    if status == 204:
        assert delivery().state == "delivered"
    else:
        assert least <= wait() <= most
        assert (delivery().state, delivery().step) == ("pending", 1)


@pytest.mark.parametrize("form", DATES)
def test_a_date_ten_minutes_ahead(endpoint: Endpoint, emit: Emit, consumer: Consumer, form: str):
    """RA-2, RA-8: each of the three forms of HTTP."""
    consumer.answer(busy(429, http_date(now() + timedelta(minutes=10), form)))
    emit()
    assert 598 <= wait() <= 600


def http_date(moment: datetime, form: str) -> str:
    """Write a moment in one of HTTP's three ways."""
    return moment.strftime(DATES[form])


def test_it_is_kept_to_the_second(endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock):
    """No request before its time, one request at its time."""
    consumer.answer(busy(503, "600"))
    emit()
    clock.advance(seconds=598)
    inline.tick_once()
    assert len(consumer.requests) == 1
    clock.advance(seconds=3)
    inline.tick_once()
    assert (len(consumer.requests), delivery().state) == (2, "delivered")


@pytest.mark.parametrize("status", [429, 503])
def test_a_receiver_that_is_busy_is_left_alone(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock, status: int
):
    """SW-26, SW-27, WH-4: the endpoint's other deliveries wait as well, and use no attempt."""
    consumer.answer(busy(status, "120"))
    emit()
    emit()
    clock.advance(seconds=60)
    emit()
    inline.tick_once()
    assert len(consumer.requests) == 1
    assert sorted(Delivery.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    clock.advance(seconds=61)
    inline.tick_once()
    assert len(consumer.requests) == 4
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


@pytest.mark.parametrize("status", [500, 404, 302])
def test_other_failures_delay_their_own_message_only(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, status: int
):
    consumer.answer(busy(status, "120"))
    emit()
    emit()
    assert len(consumer.requests) == 2
    assert EndpointState.objects.get().hold_until is None


def test_two_that_disagree_are_ignored(endpoint: Endpoint, emit: Emit, consumer: Consumer):
    consumer.answer(reply("429 Busy", b"", "Retry-After: 120", "retry-after: 240"))
    emit()
    assert SCHEDULE[0] <= wait() <= SCHEDULE[1]


def test_every_answer_may_ask_again_and_the_schedule_still_ends(
    endpoint: Endpoint, emit: Emit, consumer: Consumer, clock: Clock
):
    """A receiver that is busy for ever does not keep a delivery alive for ever."""
    consumer.always = busy(429, "3600")
    emit()
    while delivery().state == "pending":
        let_due(clock)
    assert (delivery().state, len(consumer.requests)) == ("exhausted", 13)
