"""Leases that lapse: a worker that dies loses nothing, a delivery that kills workers ends by its policy."""

from datetime import timedelta

import pytest

from webhooks_app.models import Delivery, EndpointState
from webhooks_app.pipeline import inline, sending

from .conftest import Clock
from .driving import attempt, attempts_of, check_books, claim, run_path, send, waiting
from .factories import EndpointFactory
from .receiver import OK, Receiver, reply

pytestmark = pytest.mark.django_db


def lapse(clock: Clock) -> None:
    clock.advance(seconds=31)


def test_a_claim_that_nobody_ends_is_claimed_again(receiver: Receiver, clock: Clock):
    """B006"""
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    claim(endpoint)
    inline.deliver([endpoint.pk])
    assert not receiver.requests
    lapse(clock)
    inline.deliver([endpoint.pk])
    assert len(receiver.requests) == 3
    assert set(Delivery.objects.values_list("attempts", "lapses", "state")) == {(1, 0, "delivered")}
    check_books()


def test_lapses_count_and_a_suspect_goes_alone(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(state__window=100)
    waiting(endpoint, 2)
    claim(endpoint)
    lapse(clock)
    assert {job.lapses for job in claim(endpoint).jobs} == {1}
    waiting(endpoint, 5)
    lapse(clock)
    held = claim(endpoint)
    assert [job.lapses for job in held.jobs] == [2]
    assert endpoint.pk in held.more
    assert Delivery.objects.get(pk=held.jobs[0].id).lapses == 2
    send(held)()
    others = claim(endpoint)
    assert [job.lapses for job in others.jobs] == [2]
    send(others)()
    assert len(claim(endpoint).jobs) == 5


def test_the_third_lapse_is_a_failed_attempt(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(state__window=100)
    (delivery,) = waiting(endpoint)
    for _ in range(3):
        claim(endpoint)
        lapse(clock)
    held = claim(endpoint)
    assert not held.jobs
    assert [job.id for job in held.lost] == [delivery.pk]
    send(held)()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts, delivery.lapses) == ("pending", 1, 0)
    assert (delivery.last_error, delivery.step) == ("worker_lost", 1)
    (row,) = attempts_of(delivery)
    assert (row.status, row.error, row.number, row.http_status) == ("failed", "worker_lost", 1, None)
    assert not receiver.requests
    clock.advance(seconds=40)
    run_path()
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 2)
    check_books()


def test_a_lost_worker_says_nothing_about_the_receiver(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(state__consecutive_failures=7)
    waiting(endpoint)
    for _ in range(3):
        claim(endpoint)
        lapse(clock)
    attempt(endpoint)
    assert EndpointState.objects.get().consecutive_failures == 7


def test_a_delivery_that_kills_every_worker_ends_by_its_policy(clock: Clock, receiver: Receiver):
    endpoint = EndpointFactory(policy_overrides={"waits": [1, 1]})
    (delivery,) = waiting(endpoint)
    for _ in range(3):
        for _ in range(3):
            claim(endpoint)
            lapse(clock)
        attempt(endpoint)
        clock.advance(seconds=2)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.last_error, delivery.attempts) == ("exhausted", "worker_lost", 3)
    check_books()


def test_an_attempt_that_is_recorded_forgets_the_lapses(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    claim(endpoint)
    lapse(clock)
    receiver.script(endpoint, reply(500))
    attempt(endpoint)
    delivery.refresh_from_db()
    assert delivery.lapses == 0


def test_a_worker_that_wakes_up_too_late_records_nothing(receiver: Receiver, clock: Clock):
    """B006"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.script(endpoint, reply(500), OK)
    zombie = send(claim(endpoint))
    lapse(clock)
    rival = send(claim(endpoint))
    assert not zombie().attempts
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("pending", 0)
    assert len(rival().attempts) == 1
    assert not zombie().attempts
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 1)
    assert [each.status for each in attempts_of(delivery)] == ["succeeded"]
    assert EndpointState.objects.get().consecutive_failures == 0


def test_a_worker_that_wakes_up_too_late_gives_nothing_back(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint)
    zombie = send(claim(endpoint), stopping=True)
    lapse(clock)
    rival = claim(endpoint)
    assert zombie().released == 0
    assert Delivery.objects.get().lease_token == rival.token
    assert not claim(endpoint).jobs


def test_what_is_given_back_is_due_at_once_and_uses_no_attempt(receiver: Receiver):
    """B021"""
    endpoint = EndpointFactory()
    waiting(endpoint, 3)
    before = list(Delivery.objects.order_by("pk").values())
    recorded = send(claim(endpoint), stopping=True)()
    assert (recorded.released, recorded.wake) == (3, {endpoint.pk})
    assert list(Delivery.objects.order_by("pk").values()) == before
    assert not receiver.requests


def test_a_late_worker_whose_claim_nobody_took_records(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint)
    late = send(claim(endpoint))
    clock.advance(hours=1)
    assert len(late().attempts) == 1
    check_books()


def test_recording_twice_changes_nothing_the_second_time(receiver: Receiver):
    """B014, B141"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.script(endpoint, reply(500))
    held = claim(endpoint)
    first, second = send(held), send(held)
    first()
    before = Delivery.objects.values().get()
    assert not second().attempts
    assert Delivery.objects.values().get() == before
    assert len(attempts_of(delivery)) == 1


def test_nothing_is_sent_when_the_claim_could_lapse_before_the_reply(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    held = claim(endpoint)
    spare = held.until - held.claimed_at - timedelta(seconds=15 + sending.SPARE_SECONDS)
    monkeypatch.setattr(sending.time, "monotonic", lambda: held.mark + spare.total_seconds() + 0.1)
    recorded = send(held)()
    assert (recorded.released, recorded.attempts, recorded.wake) == (1, [], {endpoint.pk})
    assert not receiver.requests
    delivery.refresh_from_db()
    assert (delivery.lease_token, delivery.attempts, delivery.lapses) == (None, 0, 0)
    monkeypatch.undo()
    assert len(claim(endpoint).jobs) == 1
