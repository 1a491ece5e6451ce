"""Many workers at the same rows: caps hold, nothing is claimed twice, one locked row holds up nobody."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import transaction
from django.utils import timezone

from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import clock as path_clock
from webhooks_app.pipeline.batch import OutcomesKeptError

from .driving import claim, committed, in_threads, insist, run_path, send, waiting
from .factories import EndpointFactory
from .receiver import Receiver, reply

pytestmark = [committed, pytest.mark.pg]

CAP = 7


class Counting:
    """A receiver that counts how many requests are open at once, per URL."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def __call__(self, request):
        with self.lock:
            self.open[request.url] += 1
            self.most[request.url] = max(self.most[request.url], self.open[request.url])
        time.sleep(random.uniform(0, 0.004))
        with self.lock:
            self.open[request.url] -= 1
        return reply(200)


def work_off(endpoints: list[Endpoint], seconds: float = 20) -> Callable[[], int]:
    def run() -> int:
        sent = 0
        deadline = time.monotonic() + seconds
        while Delivery.objects.filter(attempts=0).exists() and time.monotonic() < deadline:
            held = claim(*endpoints)
            sent += len(held.jobs)
            if held.jobs:
                insist(send(held))
        return sent

    return run


def test_eight_workers_never_exceed_the_cap(receiver: Receiver):
    """B038"""
    endpoints = [EndpointFactory(state__window=100, max_in_flight=CAP) for _ in range(2)]
    counting = Counting()
    for endpoint in endpoints:
        waiting(endpoint, 60)
        receiver.always(endpoint, counting)
    assert sum(in_threads(*[work_off(endpoints)] * 8)) == 120
    assert max(counting.most.values()) <= CAP
    assert max(Counter(receiver.ids()).values()) == 1
    assert set(Delivery.objects.values_list("attempts", "state")) == {(1, "delivered")}


def test_live_leases_never_exceed_the_cap():
    """Counted in the database, while eight workers lease at the same moment."""
    endpoint = EndpointFactory(state__window=100, max_in_flight=CAP)
    waiting(endpoint, 60)
    for _ in range(5):
        leases = in_threads(*[lambda: claim(endpoint)] * 8)
        jobs = [job.id for held in leases for job in held.jobs]
        assert len(jobs) == len(set(jobs)) == CAP
        Delivery.objects.filter(pk__in=jobs).update(lease_token=None, lease_until=None)


def test_workers_that_name_endpoints_in_opposite_order_do_not_deadlock(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    endpoints = [EndpointFactory(state__window=100) for _ in range(6)]
    for endpoint in endpoints:
        waiting(endpoint, 20)
        receiver.script(endpoint, *[reply(500)] * 5)
    with caplog.at_level("INFO", "webhooks_app.pipeline"):
        in_threads(*[work_off(some) for some in (endpoints, endpoints[::-1], endpoints[3:] + endpoints[:3])])
    assert not [line for line in caplog.messages if "Deadlock" in line]
    assert Delivery.objects.filter(state="delivered").count() == 90


def hold_row(endpoint: Endpoint, locked: threading.Event, done: threading.Event) -> None:
    with transaction.atomic():
        EndpointState.objects.select_for_update().get(pk=endpoint.pk)
        locked.set()
        done.wait(20)


def test_a_locked_row_does_not_hold_up_the_leases_of_the_others():
    busy, free = EndpointFactory(), EndpointFactory()
    for endpoint in (busy, free):
        waiting(endpoint)
    locked, done = threading.Event(), threading.Event()

    def lease() -> tuple[object, float]:
        locked.wait(5)
        started = time.monotonic()
        held = claim(busy, free)
        took = time.monotonic() - started
        done.set()
        return held, took

    _, (held, took) = in_threads(lambda: hold_row(busy, locked, done), lease)
    assert [job.endpoint_id for job in held.jobs] == [free.pk]
    assert held.stuck == (busy.pk,)
    assert took < 1.5
    assert [job.endpoint_id for job in claim(busy).jobs] == [busy.pk]


def test_a_short_wait_for_a_row_is_no_lost_wake():
    endpoint = EndpointFactory()
    waiting(endpoint)
    locked, done = threading.Event(), threading.Event()

    def lease() -> object:
        locked.wait(5)
        threading.Timer(0.05, done.set).start()
        return claim(endpoint)

    _, held = in_threads(lambda: hold_row(endpoint, locked, done), lease)
    assert len(held.jobs) == 1


def test_the_time_of_a_lease_is_read_after_the_wait_for_its_lock():
    """Else the claim would be shorter in the database than its worker believes."""
    endpoint = EndpointFactory()
    waiting(endpoint)
    locked, done = threading.Event(), threading.Event()

    def lease() -> tuple[object, object]:
        locked.wait(5)
        before = path_clock.db_now("default")
        threading.Timer(0.08, done.set).start()
        return before, claim(endpoint)

    _, (before, held) = in_threads(lambda: hold_row(endpoint, locked, done), lease)
    assert (held.claimed_at - before).total_seconds() > 0.06


def test_a_pause_that_commits_while_a_lease_waits_is_seen():
    endpoint = EndpointFactory()
    waiting(endpoint)
    locked = threading.Event()

    def pause() -> None:
        with transaction.atomic():
            EndpointState.objects.filter(pk=endpoint.pk).update(paused_at=timezone.now())
            locked.set()
            time.sleep(0.05)

    def lease() -> object:
        locked.wait(5)
        return claim(endpoint)

    _, held = in_threads(pause, lease)
    assert not held.jobs


def test_a_locked_row_keeps_only_its_own_outcomes_back(receiver: Receiver):
    busy, free = EndpointFactory(), EndpointFactory()
    for endpoint in (busy, free):
        waiting(endpoint)
    record = send(claim(busy, free))
    locked, done = threading.Event(), threading.Event()

    def write() -> None:
        locked.wait(5)
        with pytest.raises(OutcomesKeptError):
            record()
        done.set()

    in_threads(lambda: hold_row(busy, locked, done), write)
    states = dict(Delivery.objects.values_list("endpoint_id", "state"))
    assert states == {busy.pk: "pending", free.pk: "delivered"}
    record()
    run_path()
    assert set(Delivery.objects.values_list("state", "attempts")) == {("delivered", 1)}
    assert len(receiver.requests) == 2
