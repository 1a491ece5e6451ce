"""Several workers around one breaker: it opens once, few probes are under way, and one disabling is told."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.models import Attempt, AuditEntry, Delivery, Endpoint, Event
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import tick
from webhooks_app.pipeline.work import Lease
from webhooks_app.signals import breaker_changed, endpoint_disabled

from .breakers import PROBES, breaker_of, changes, opened, set_state, state_of, untouched
from .conftest import Clock
from .driving import ALIAS, check_books, claim, committed, disabled_by, in_threads, insist, send, waiting
from .factories import EndpointFactory
from .receiver import OK, TIMEOUT, Receiver, reply

pytestmark = [committed, pytest.mark.pg]

FAILED = reply(500)
EVERY = pytest.mark.parametrize("policy", list(PROBES))


class Hanging:
    """A receiver that keeps everybody waiting until it is let go, and counts who waits."""

    def __init__(self, answer: AttemptResult) -> None:
        self.answer, self.go_on = answer, threading.Event()
        self.lock = threading.Lock()
        self.open = self.most = 0

    def __call__(self, request: Request) -> AttemptResult:
        with self.lock:
            self.open += 1
            self.most = max(self.most, self.open)
        assert self.go_on.wait(20)
        with self.lock:
            self.open -= 1
        return self.answer


def worker(endpoint: Endpoint, stop: threading.Event) -> Callable[[], int]:
    """Lease and send again and again, each request in a thread of its own, as the engine does."""

    def run() -> int:
        sent, threads = 0, []
        while not stop.is_set():
            held = claim(endpoint)
            sent += len(held.jobs)
            if held.jobs:
                threads.append(threading.Thread(target=partial(_send, held), daemon=True))
                threads[-1].start()
            time.sleep(0.005)
        for thread in threads:
            thread.join(20)
        return sent

    return run


def _send(held: Lease) -> None:
    try:
        insist(send(held))
    finally:
        connections.close_all()


@EVERY
def test_eight_workers_have_few_probes_under_way(policy: str, receiver: Receiver, until: Callable[..., None]):
    """B032: fifty are held, the receiver hangs; the others wait unattempted."""
    endpoint = opened(policy)
    waiting(endpoint, 50)
    hanging, stop = Hanging(TIMEOUT), threading.Event()
    receiver.always(endpoint, hanging)

    def watch() -> None:
        until(lambda: hanging.open)
        time.sleep(0.3)
        hanging.go_on.set()
        until(lambda: Attempt.objects.count() >= hanging.most)
        time.sleep(0.1)
        stop.set()

    _, *sent = in_threads(watch, *[worker(endpoint, stop)] * 8)
    assert 1 <= hanging.most <= PROBES[policy]
    assert sum(sent) == len(receiver.requests) <= PROBES[policy]
    assert untouched(endpoint) == 50 - sum(sent)
    assert breaker_of(endpoint) == "open"
    check_books()


@EVERY
def test_two_workers_at_the_threshold_open_it_once(policy: str, receiver: Receiver):
    """Both have failures enough; the second one's belong to the life before."""
    endpoint = EndpointFactory(policy=policy, state__window=100)
    waiting(endpoint, 60)
    receiver.always(endpoint, FAILED)
    told: list[str] = []

    def listen(**values: Any) -> None:
        told.append(values["state"])

    breaker_changed.connect(listen)
    try:
        records = [send(claim(endpoint, senders=30)) for _ in range(2)]
        in_threads(*[partial(insist, record) for record in records])
    finally:
        breaker_changed.disconnect(listen)
    state = state_of(endpoint)
    assert (state.breaker, state.generation) == ("open", 2)
    assert (changes(endpoint), told) == (["opened"], ["open"])
    assert Attempt.objects.count() == 60
    check_books()


def test_one_success_among_rival_probes_closes_it_once(receiver: Receiver):
    endpoint = opened("strict")
    waiting(endpoint, 3)
    held = claim(endpoint)
    records = [send(_part(held, place)) for place in range(3)]
    in_threads(*[partial(insist, record) for record in records])
    assert changes(endpoint) == ["closed"]
    assert Event.objects.filter(type="webhook.recovered").count() == 1
    assert state_of(endpoint).probe_token is None
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


def _part(held: Lease, place: int) -> Lease:
    return replace(held, units=held.units[place : place + 1])


def test_twenty_failures_from_two_workers_disable_once(receiver: Receiver):
    """B028: at the twentieth, whoever records it; also when telling somebody fails."""
    rule = {"auto_disable": {"failures": 20, "span": 0}}
    endpoint = EndpointFactory(policy_overrides=rule, state__window=100)
    waiting(endpoint, 21)
    receiver.always(endpoint, FAILED)

    def fail(**_: Any) -> None:
        raise RuntimeError("the host's own fault")

    endpoint_disabled.connect(fail)
    try:
        records = [send(claim(endpoint, senders=size)) for size in (11, 10)]
        results = in_threads(*[partial(insist, record) for record in records])
    finally:
        endpoint_disabled.disconnect(fail)
    assert [each for result in results for each in disabled_by(result)] == [(endpoint.pk, "failing")]
    state = state_of(endpoint)
    assert (state.enabled, state.disabled_reason, state.consecutive_failures) == (False, "failing", 20)
    assert Event.objects.filter(type="webhook.disabled").count() == 1
    assert AuditEntry.objects.filter(action="webhook.disabled").count() == 1
    assert Attempt.objects.count() == 21


def test_a_hundred_failures_of_one_second_are_a_hundred(receiver: Receiver):
    """B038: eight workers, no breaker, no lost update."""
    endpoint = EndpointFactory(
        policy="strict",
        policy_overrides={"breaker": False, "auto_disable": False},
        state__window=100,
    )
    waiting(endpoint, 100)
    receiver.always(endpoint, FAILED)
    records = [send(claim(endpoint, senders=size)) for size in (13, 12, 13, 12, 13, 12, 13, 12)]
    in_threads(*[partial(insist, record) for record in records])
    assert state_of(endpoint).consecutive_failures == 100


@EVERY
def test_a_lease_that_meets_the_opening_waits_for_it(policy: str, receiver: Receiver):
    """A lease and the record that opens the breaker at once: whoever is second sees what the first wrote."""
    for _ in range(5):
        endpoint = EndpointFactory(policy=policy, state__window=30)
        waiting(endpoint, 30)
        receiver.always(endpoint, FAILED)
        record = send(claim(endpoint))
        waiting(endpoint, 20)
        set_state(endpoint, window=100)
        _, later = in_threads(partial(insist, record), partial(claim, endpoint))
        assert breaker_of(endpoint) == "open"
        if later.jobs:
            assert {job.generation for job in later.jobs} == {1}, "it left before the opening"
            insist(send(later))
        assert state_of(endpoint).generation == 2


def test_a_crowd_around_a_flapping_receiver_loses_nothing(receiver: Receiver, clock: Clock):
    """Eight workers, a receiver that dies and comes back: each event arrives, nothing is sent twice."""
    waits = {
        "waits": [1] * 28,
        "jitter": 0,
        "breaker": {"failures": 3, "open_seconds": 1, "probe_seconds": 1},
    }
    endpoint = EndpointFactory(policy="strict", policy_overrides=waits, state__window=100)
    waiting(endpoint, 60)
    mood = {"dead": False}
    receiver.always(endpoint, lambda request: FAILED if mood["dead"] else OK)
    stop = threading.Event()

    def rule() -> None:
        deadline = time.monotonic() + 20
        for turn in range(200):
            mood["dead"] = turn % 4 < 2 and turn < 40
            clock.advance(seconds=1.1)
            time.sleep(0.02)
            if not Delivery.objects.filter(state="pending").exists() or time.monotonic() > deadline:
                break
        stop.set()

    in_threads(rule, *[worker(endpoint, stop)] * 8, seconds=60)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    assert len(receiver.requests) == Attempt.objects.filter(endpoint=endpoint).count()
    assert state_of(endpoint).breaker == "closed"
    check_books()


def test_the_tick_of_eight_wakes_a_probe_once():
    opened("strict")
    tick.look(ALIAS)
    endpoint = opened("strict")
    found = in_threads(*[partial(tick.look, ALIAS)] * 8)
    assert [each for one in found for each in (*one.due, *one.neglected)] == [endpoint.pk]
    assert timezone.now() - state_of(endpoint).breaker_at < timedelta(minutes=5)
