"""All at once on real threads: fan-outs, deliverers, cancelling, pruning. Nothing is lost or doubled."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from webhooks_app.actions.ending import End, end_open
from webhooks_app.actions.prune import prune
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointState, Event, OutboxEntry
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import tick
from webhooks_app.pipeline.fan_out import fan_out_batch, fan_out_own

from .conftest import Clock
from .driving import ALIAS, check_books, claim, committed, disabled_by, in_threads, insist, run_path, send
from .factories import EndpointFactory, emit_for
from .receiver import OK, TIMEOUT, Receiver, headers_of, reply

pytestmark = [committed, pytest.mark.pg]

ENDPOINTS, ROUNDS, EVENTS = 6, 8, 8
OLD = """
INSERT INTO webhooks_app_event (public_id, type, tenant_id, environment, occurred_at, recorded_at,
  outbox_alias, outbox_id, fanned_out_at, fan_out_cursor)
SELECT 'evt_old' || n, 'order.paid', 'acme', 'live', t, t, 'default', -n, t, 0
FROM generate_series(1, 200) n, LATERAL (SELECT now() - interval '40 days' AS t) d;
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, attempts, step, deferrals, lapses,
  position, last_error, occurred_at, created_at, finished_at)
SELECT %s, id, 'delivered', 0, 0, 0, 0, 0, id, '', occurred_at, occurred_at, occurred_at
FROM webhooks_app_event WHERE public_id LIKE 'evt_old%%'
"""


class Mixed:
    """A receiver in a mood: three quarters of its answers are good."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.open: Counter[tuple[str, str]] = Counter()
        self.overlaps = 0

    def __call__(self, request: Request) -> AttemptResult:
        key = (request.url, headers_of(request)["webhook-id"])
        with self.lock:
            self.open[key] += 1
            self.overlaps += self.open[key] > 1
        time.sleep(random.uniform(0, 0.003))
        with self.lock:
            self.open[key] -= 1
        return random.choice([OK] * 6 + [reply(500), TIMEOUT])


class Crowd:
    """The threads, which go on until the events are emitted and worked off."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = endpoints
        self.emitted = threading.Event()
        self.deadline = time.monotonic() + 40

    def busy(self) -> bool:
        if time.monotonic() > self.deadline:
            return False
        waits = OutboxEntry.objects.filter(dispatched_at__isnull=True).exists()
        return not self.emitted.is_set() or waits or Delivery.objects.filter(state="pending").exists()

    def emit(self) -> None:
        for _ in range(ROUNDS):
            emit_for("acme", EVENTS, owner=("crowd", "1"))
            time.sleep(0.005)
        self.emitted.set()

    def fan_out(self) -> None:
        while self.busy():
            fan_out_batch(ALIAS, ALIAS)
            fan_out_own(ALIAS)

    def deliver(self) -> None:
        while self.busy():
            held = claim(*random.sample(self.endpoints, 3))
            if held.jobs:
                insist(send(held))

    def cancel(self) -> None:
        while self.busy():
            endpoint = random.choice(self.endpoints[:2])
            keys = list(
                Delivery.objects.filter(endpoint=endpoint, state="pending").values_list("pk", flat=True)
            )
            end_open(ALIAS, endpoint.pk, End(CANCELLED, ""), only=keys[:2])
            time.sleep(0.01)

    def look(self) -> None:
        while self.busy():
            prune(batch=20)
            tick.look(ALIAS)
            time.sleep(0.01)


def test_everybody_at_once(receiver: Receiver, clock: Clock, caplog: pytest.LogCaptureFixture):
    """B133, B038: two fan-outs, four deliverers, cancelling, pruning and the tick."""
    waits = {"waits": [1] * 20, "jitter": 0}
    endpoints = EndpointFactory.create_batch(
        ENDPOINTS, tenant_id="acme", max_in_flight=7, policy_overrides=waits, state__window=7
    )
    mixed = Mixed()
    for endpoint in endpoints:
        receiver.always(endpoint, mixed)
    with connection.cursor() as cursor:
        cursor.execute(OLD, [endpoints[0].pk])
    crowd = Crowd(endpoints)
    works: list[Callable[[], Any]] = [crowd.emit, crowd.fan_out, crowd.fan_out, crowd.cancel, crowd.look]
    with caplog.at_level("INFO", "webhooks_app.pipeline"):
        in_threads(*works, *[crowd.deliver] * 4, seconds=60)
    clock.advance(minutes=1)
    for _ in range(25):
        run_path()
        clock.advance(seconds=2)
    events = Event.objects.filter(public_id__startswith="evt_0")
    assert events.count() == ROUNDS * EVENTS
    assert Delivery.objects.count() == ROUNDS * EVENTS * ENDPOINTS
    assert list(events.order_by("id").values_list("sequence", flat=True)) == list(
        range(1, 1 + ROUNDS * EVENTS)
    )
    ends = Counter(Delivery.objects.values_list("state", flat=True))
    assert set(ends) <= {"delivered", "cancelled"}
    assert not Delivery.objects.filter(endpoint__in=endpoints[2:]).exclude(state="delivered").exists()
    check_books()
    check_requests(receiver)
    assert mixed.overlaps == 0
    assert not Event.objects.filter(public_id__startswith="evt_old").exists()
    assert not [line for line in caplog.messages if "DeadlockDetected" in line]


def check_requests(receiver: Receiver) -> None:
    """Every request is on record once: none is lost, none is made up."""
    made = Counter((request.url, headers_of(request)["webhook-id"]) for request in receiver.requests)
    kept = Counter(Attempt.objects.values_list("url", "event_id"))
    assert made == kept


def test_failures_from_eight_workers_are_all_counted(receiver: Receiver):
    """B038"""
    endpoint = EndpointFactory(state__window=100)
    receiver.always(endpoint, reply(500))
    emit_for(endpoint, 80)
    run_fan_out()
    records = [send(claim_ten(endpoint)) for _ in range(8)]
    in_threads(*[partial(insist, record) for record in records])
    assert EndpointState.objects.get().consecutive_failures == 80
    assert set(Delivery.objects.values_list("attempts", "step")) == {(1, 1)}


def test_many_workers_at_the_threshold_disable_once(receiver: Receiver):
    """B028"""
    endpoint = EndpointFactory(
        state__window=100,
        state__consecutive_failures=85,
        state__first_failure_at=timezone.now() - timedelta(hours=25),
    )
    receiver.always(endpoint, reply(500))
    emit_for(endpoint, 80)
    run_fan_out()
    records = [send(claim_ten(endpoint)) for _ in range(8)]
    results = in_threads(*[partial(insist, record) for record in records])
    assert sum(len(disabled_by(each)) for each in results) == 1
    state = EndpointState.objects.get()
    assert (state.enabled, state.disabled_reason, state.generation) == (False, "failing", 2)
    assert 100 <= state.consecutive_failures < 110
    assert Event.objects.filter(type="webhook.disabled").count() == 1
    assert Attempt.objects.count() == 80


def run_fan_out() -> None:
    while fan_out_batch(ALIAS, ALIAS).more:
        pass


def claim_ten(endpoint: Endpoint) -> Any:
    held = claim(endpoint, senders=10)
    assert len(held.jobs) == 10
    return held
