"""Order while many are at work: no two requests of a lane overlap, none overtakes another."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from webhooks_app.actions.ending import End, end_open
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Attempt, Delivery, Endpoint, OutboxEntry
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.hints import Hints

from .conftest import Worker, drain
from .driving import ALIAS, check_books, claim, committed, in_threads, insist, send
from .ordered import Watch, check_lanes, emit_owned, ordered
from .receiver import OK, Receiver, reply

pytestmark = committed

WORKERS = 8
OWNERS = ("a", "b", "c")
QUICK_RETRY = {"waits": [1] * 5, "jitter": 0}


def lanes_of(ordering: str, emitted: dict[str, list[str]]) -> dict[str, str]:
    return {
        event_id: "" if ordering == "fifo" else owner for owner, ids in emitted.items() for event_id in ids
    }


def order_of(lane: str) -> list[str]:
    """Return the event ids of a lane in the order of their positions."""
    rows = Delivery.objects.filter(lane=lane).select_related("event").order_by("position")
    return [row.event.public_id for row in rows]


def check_order(watch: Watch) -> None:
    """Check that each lane's first requests came in order, and no request before its predecessor's end."""
    assert watch.overlaps == []
    for lane in Delivery.objects.values_list("lane", flat=True).distinct():
        expected = order_of(lane)
        seen = watch.seen[watch.lanes[expected[0]]]
        # A failed one is repeated before the next one goes: runs of the same id, in order.
        runs = [event_id for place, event_id in enumerate(seen) if not place or seen[place - 1] != event_id]
        assert runs == expected


@pytest.mark.pg
@pytest.mark.parametrize("ordering", ["fifo", "subject"])
def test_eight_workers_never_overlap_and_never_overtake(ordering: str, receiver: Receiver):
    """Each leases, sends and records as it likes; some requests fail and block their lane for a second."""
    endpoint = ordered(ordering, policy_overrides=QUICK_RETRY)
    emitted = {owner: emit_owned(endpoint, owner, 60) for owner in OWNERS}
    watch = Watch(lanes_of(ordering, emitted), pause=0.001)
    for ids in emitted.values():
        for event_id in random.sample(ids, 1):
            watch.answers[event_id] = [reply(500)]
    receiver.always(endpoint, watch)
    inline.fan_out()
    give_up = time.monotonic() + 40

    def work() -> None:
        while Delivery.objects.filter(state="pending").exists():
            assert time.monotonic() < give_up, "it does not come to an end"
            insist(send(claim(endpoint)))

    in_threads(*[work] * WORKERS, seconds=50)
    check_order(watch)
    check_books()
    assert Counter(Attempt.objects.values_list("status", flat=True)) == {"succeeded": 180, "failed": 3}


class Bustle:
    """Events that keep coming, workers, and a hand that cancels what it likes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.watch = Watch({}, pause=0.0005)
        self.emitted: dict[str, list[str]] = {owner: [] for owner in OWNERS}
        self.done = threading.Event()
        self.deadline = time.monotonic() + 40

    def emit(self) -> None:
        for _ in range(15):
            for owner in OWNERS:
                ids = emit_owned(self.endpoint, owner, 4)
                self.emitted[owner] += ids
                self.watch.lanes.update(dict.fromkeys(ids, owner))
                if random.random() < 0.3:
                    self.watch.answers[random.choice(ids)] = [reply(500)]
            inline.fan_out()
        self.done.set()

    def busy(self) -> bool:
        assert time.monotonic() < self.deadline, "it does not come to an end"
        return not self.done.is_set() or Delivery.objects.filter(state="pending").exists()

    def work(self) -> None:
        while self.busy():
            insist(send(claim(self.endpoint)))

    def cancel(self) -> None:
        while self.busy():
            rows = Delivery.objects.filter(state="pending").order_by("?").values_list("pk", flat=True)[:1]
            end_open(ALIAS, self.endpoint.pk, End(CANCELLED), only=list(rows))
            with connection.cursor() as cursor:
                cursor.execute(_HEADLESS)
                assert cursor.fetchall() == []
            time.sleep(0.02)


@pytest.mark.pg
def test_a_lane_stays_whole_while_events_keep_coming(receiver: Receiver):
    """Fan-out, six workers, a cancelling hand: the invariant holds whenever somebody looks."""
    endpoint = ordered("subject", policy_overrides=QUICK_RETRY)
    bustle = Bustle(endpoint)
    receiver.always(endpoint, bustle.watch)
    in_threads(bustle.emit, bustle.cancel, *[bustle.work] * (WORKERS - 2), seconds=50)
    assert bustle.watch.overlaps == []
    cancelled = set(Delivery.objects.filter(state="cancelled").values_list("event__public_id", flat=True))
    for owner, emitted in bustle.emitted.items():
        seen = list(dict.fromkeys(bustle.watch.seen[owner]))
        assert seen == [event_id for event_id in emitted if event_id in set(seen)]
        assert set(emitted) - set(seen) <= cancelled


# In one statement: one snapshot, so that nobody changes a lane between two looks.
_HEADLESS = """SELECT lane FROM (SELECT lane, due_at, row_number() OVER (PARTITION BY endpoint_id, lane
ORDER BY position) AS place FROM webhooks_app_delivery WHERE state = 'pending' AND lane IS NOT NULL) AS rows
WHERE place = 1 AND due_at IS NULL"""


@pytest.mark.parametrize("ordering", ["fifo", "subject"])
def test_the_engine_keeps_the_order_and_needs_no_tick(
    ordering: str, receiver: Receiver, worker: Worker, until: Callable[..., None]
):
    """What arrives while chains are out is sent when they end: the record's wake is enough."""
    endpoint = ordered(ordering, state__window=4)
    watch = Watch({}, pause=0.002)
    receiver.always(endpoint, watch)
    for count in (10, *[5] * 8):
        for owner in OWNERS:
            watch.emit(endpoint, owner, count, lane="" if ordering == "fifo" else owner)
            worker.ring(Hints(fan_out=True))
    total = len(watch.lanes)
    # Well below the five seconds after which the engine's own tick looks.
    until(lambda: Delivery.objects.filter(state="delivered").count() == total, 4.5)
    check_order(watch)
    check_books()


def test_owners_are_sent_at_the_same_time(receiver: Receiver, worker: Worker, until: Callable[..., None]):
    endpoint = ordered("subject")
    together = threading.Barrier(len(OWNERS))

    def meet(_: Request) -> AttemptResult:
        together.wait(10)
        return OK

    receiver.always(endpoint, meet)
    ids = {owner: emit_owned(endpoint, owner, 2) for owner in OWNERS}
    worker.ring(Hints(fan_out=True))
    until(lambda: Delivery.objects.filter(state="delivered").count() == 6)
    assert sorted(receiver.ids()[:3]) == sorted(mine[0] for mine in ids.values())


def test_an_engine_that_stops_gives_back_what_it_has_not_sent(
    receiver: Receiver, worker: Worker, until: Callable[..., None]
):
    endpoint = ordered("fifo")
    watch = Watch({}, pause=0.02)
    receiver.always(endpoint, watch)
    ids = watch.emit(endpoint, "a", 40)
    worker.ring(Hints(fan_out=True))
    until(lambda: watch.seen[""])
    drain()
    sent = Delivery.objects.filter(state="delivered").count()
    assert sent == len(watch.seen[""]) < 40
    left = Delivery.objects.filter(state="pending")
    assert set(left.values_list("attempts", "lapses", "lease_token")) == {(0, 0, None)}
    check_lanes()
    inline.deliver([endpoint.pk])
    assert watch.seen[""] == ids


def test_an_outbox_with_many_owners_is_fanned_out_in_their_order(receiver: Receiver):
    """Whatever order the owners' events are committed in, each owner's own go by sequence."""
    endpoint = ordered("subject")
    for _ in range(5):
        for owner in random.sample(OWNERS, len(OWNERS)):
            emit_owned(endpoint, owner, random.randint(1, 4))
    inline.fan_out()
    inline.deliver([endpoint.pk])
    entries = {each.event_id: each for each in OutboxEntry.objects.all()}
    for owner in OWNERS:
        mine = [entries[one].sequence for one in receiver.ids() if entries[one].owner_id == owner]
        assert mine == list(range(1, len(mine) + 1))
    assert not Delivery.objects.exclude(state="delivered").exists()


def test_endpoints_of_different_orders_get_the_same_events(receiver: Receiver):
    endpoints: dict[str, Endpoint] = {
        ordering: ordered(ordering, tenant_id="acme") for ordering in ("none", "fifo", "subject")
    }
    ids = [event_id for owner in OWNERS * 3 for event_id in emit_owned(endpoints["none"], owner)]
    inline.fan_out()
    inline.deliver([each.pk for each in endpoints.values()])
    assert receiver.ids(endpoints["fifo"]) == ids
    for endpoint in endpoints.values():
        assert sorted(receiver.ids(endpoint)) == sorted(ids)
    lanes: dict[str, Any] = {
        name: set(Delivery.objects.filter(endpoint=each).values_list("lane", flat=True))
        for name, each in endpoints.items()
    }
    assert (lanes["none"], lanes["fifo"], len(lanes["subject"])) == ({None}, {""}, 3)
