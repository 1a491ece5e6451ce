"""What follows from failures: waits, their jitter, Retry-After, holds, and the end of the schedule."""

import logging
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from django.utils import timezone

from webhooks_app.core.policies import STANDARD
from webhooks_app.models import Delivery, EndpointState
from webhooks_app.pipeline import clock as path_clock
from webhooks_app.pipeline import inline
from webhooks_app.signals import delivery_ended

from .conftest import Clock
from .driving import ALIAS, attempt, attempts_of, check_books, claim, run_path, waiting
from .factories import EndpointFactory, emit_for
from .receiver import TIMEOUT, Receiver, headers_of, reply

pytestmark = pytest.mark.django_db


def advance_to_due(clock: Clock) -> None:
    wait = Delivery.objects.get().due_at - path_clock.db_now(ALIAS)
    clock.advance(seconds=wait.total_seconds() + 0.01)


def wait_of(delivery: Delivery) -> float:
    """Return the seconds between the last attempt and the next."""
    delivery.refresh_from_db()
    last = attempts_of(delivery)[-1]
    assert last.next_attempt_at == delivery.due_at
    return (delivery.due_at - last.created_at).total_seconds()


def test_the_whole_standard_schedule(receiver: Receiver, clock: Clock, caplog: pytest.LogCaptureFixture):
    """B110, B046: thirteen attempts in about three days, then dead, told once."""
    ended = []

    def listen(**values: object) -> None:
        ended.append((values["state"], values["error"], values["attempts"]))

    delivery_ended.connect(listen)
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(500))
    caplog.set_level(logging.WARNING, "webhooks_app")
    run_path()
    for step, nominal in enumerate(STANDARD.waits, 1):
        delivery.refresh_from_db()
        assert (delivery.state, delivery.attempts, delivery.step) == ("pending", step, step)
        assert delivery.last_error == "status_5xx"
        assert nominal * 0.9 - 0.5 <= wait_of(delivery) <= nominal * 1.1 + 0.5
        inline.deliver([endpoint.pk])
        assert len(receiver.requests) == step
        assert not caplog.records
        advance_to_due(clock)
        inline.deliver([endpoint.pk])
        assert len(receiver.requests) == step + 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.due_at) == ("exhausted", 13, None)
    assert delivery.finished_at is not None
    assert [row.status for row in attempts_of(delivery)] == ["failed"] * 12 + ["dead"]
    assert [headers_of(request)["webhook-attempt"] for request in receiver.requests] == [
        str(number) for number in range(1, 14)
    ]
    total = attempts_of(delivery)[-1].created_at - attempts_of(delivery)[0].created_at
    assert timedelta(hours=64) < total < timedelta(hours=82)
    (line,) = [record.getMessage() for record in caplog.records if "ended as" in record.getMessage()]
    assert "exhausted after 13 attempts: status_5xx" in line
    assert endpoint.url not in caplog.text
    assert ended == [("exhausted", "status_5xx", 13)]
    clock.advance(days=1)
    run_path()
    assert len(receiver.requests) == 13
    check_books()
    delivery_ended.disconnect(listen)


def test_waits_are_spread(receiver: Receiver):
    """B125"""
    endpoint = EndpointFactory(state__window=100)
    deliveries = waiting(endpoint, 100)
    Delivery.objects.update(step=4)
    receiver.always(endpoint, TIMEOUT)
    inline.deliver([endpoint.pk])
    waits = sorted(wait_of(delivery) for delivery in deliveries)
    nominal = STANDARD.waits[4]
    assert nominal * 0.9 - 1 <= waits[0] < nominal * 0.95
    assert nominal * 1.05 < waits[-1] <= nominal * 1.1 + 1
    assert len({round(wait) for wait in waits}) > 50


def test_a_success_is_an_end_that_nobody_is_warned_of(receiver: Receiver, caplog: pytest.LogCaptureFixture):
    ended = []

    def listen(**values: object) -> None:
        ended.append(values)

    delivery_ended.connect(listen)
    waiting(EndpointFactory())
    run_path()
    delivery_ended.disconnect(listen)
    assert not ended
    assert not [line for line in caplog.messages if "ended as" in line]


def test_a_success_after_failures_ends_it(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.script(endpoint, TIMEOUT, reply(503), reply(204))
    for _ in range(3):
        run_path()
        clock.advance(minutes=5)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.last_error) == ("delivered", 3, "")
    assert delivery.first_delivered_at is not None
    assert [row.error for row in attempts_of(delivery)] == ["timeout", "status_5xx", ""]
    check_books()


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 226, 299])
def test_every_2xx_is_success(status: int, receiver: Receiver):
    """B111"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(status))
    run_path()
    delivery.refresh_from_db()
    assert delivery.state == "delivered"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (302, "redirect"),
        (304, "redirect"),
        (400, "status_4xx"),
        (401, "status_4xx"),
        (404, "status_4xx"),
        (418, "status_4xx"),
        (429, "status_4xx"),
        (500, "status_5xx"),
        (599, "status_5xx"),
        (101, "invalid_response"),
        (600, "invalid_response"),
    ],
)
def test_everything_else_but_410_is_tried_again(status: int, error: str, receiver: Receiver):
    """B111, B112"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(status))
    run_path()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error, delivery.step) == ("pending", error, 1)


def retry_after(value: str | int) -> str:
    """Return a header's value; a number stands for the date so many seconds from now."""
    if isinstance(value, str):
        return value
    return format_datetime(datetime.now(UTC) + timedelta(seconds=value), usegmt=True)


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("120", 119, 121),
        ("5", 26, 34),
        (600, 560, 601),
        (-600, 26, 34),
        ("-1", 26, 34),
        ("1.5", 26, 34),
        ("abc", 26, 34),
        ("9999999999", 86_399, 86_401),
        pytest.param("9" * 400, 26, 34, id="no float"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_399, 86_401),
        ("\ufffd", 26, 34),
    ],
)
def test_retry_after_raises_the_wait(value: str | int, low: float, high: float, receiver: Receiver):
    """B106"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.script(endpoint, reply(429, retry_after=retry_after(value)))
    run_path()
    assert low <= wait_of(delivery) <= high


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_holds_the_endpoints_other_deliveries(status: int, receiver: Receiver, clock: Clock):
    """B106"""
    endpoint, other = EndpointFactory(state__window=1), EndpointFactory()
    waiting(endpoint, 3)
    receiver.script(endpoint, reply(status, retry_after="600"))
    attempt(endpoint)
    assert not claim(endpoint).jobs
    emit_for(endpoint)
    emit_for(other)
    run_path()
    assert (len(receiver.to(endpoint)), len(receiver.to(other))) == (1, 1)
    clock.advance(seconds=590)
    run_path()
    assert len(receiver.to(endpoint)) == 1
    clock.advance(seconds=15)
    run_path()
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    check_books()


def test_other_answers_with_retry_after_hold_nobody(receiver: Receiver):
    endpoint = EndpointFactory(state__window=1)
    first, _ = waiting(endpoint, 2)
    receiver.script(endpoint, reply(500, retry_after="600"))
    attempt(endpoint)
    assert wait_of(first) == pytest.approx(600, abs=1)
    attempt(endpoint)
    assert len(receiver.requests) == 2


def test_a_shorter_hold_does_not_cut_a_longer_one(receiver: Receiver):
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    receiver.script(endpoint, reply(429, retry_after="900"), reply(503, retry_after="20"))
    attempt(endpoint)
    hold = EndpointState.objects.get().hold_until
    assert timedelta(seconds=890) < hold - timezone.now() < timedelta(seconds=901)


def test_a_retry_that_would_come_after_the_events_end_is_not_waited_for(receiver: Receiver):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint, expires_at=timezone.now() + timedelta(seconds=20))
    receiver.always(endpoint, reply(500))
    run_path()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error, delivery.attempts) == ("expired", "status_5xx", 1)


def test_an_abort_of_the_consumer_is_final(receiver: Receiver):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(500, webhook_delivery="abort-message"))
    run_path()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error) == ("failed_permanent", "aborted_by_consumer")
    (row,) = attempts_of(delivery)
    assert (row.status, row.error, row.http_status) == ("dead", "aborted_by_consumer", 500)
    assert EndpointState.objects.get().enabled


def test_own_waits_and_timeouts_are_used(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(
        policy_overrides={"waits": [7, 9], "jitter": 0, "total_timeout": 3, "connect_timeout": 2}
    )
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(500))
    for nominal in (7, 9):
        run_path()
        assert wait_of(delivery) == nominal
        clock.advance(seconds=nominal + 0.01)
    run_path()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("exhausted", 3)
    assert {(each.connect_timeout, each.total_timeout) for each in receiver.requests} == {(2, 3)}


def test_a_row_with_overrides_that_are_no_longer_valid_goes_on(receiver: Receiver):
    endpoint = EndpointFactory(policy="gone", policy_overrides={"waits": "x", "nonsense": 1})
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(500))
    run_path()
    assert 26 <= wait_of(delivery) <= 34
