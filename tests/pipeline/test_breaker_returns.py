"""A receiver that comes back, in all its moods: what was held arrives, and nobody floods it."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.actions.actor import operator
from webhooks_app.actions.resume import resume
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import inline, tick

from .breakers import PROBES, breaker_of, changes, opened, state_of, triggers, untouched
from .conftest import Bell, Clock
from .copies import copies
from .driving import ALIAS, attempt, check_books, claim, run_path, send, waiting
from .factories import EndpointFactory
from .receiver import OK, TIMEOUT, Receiver, reply

pytestmark = pytest.mark.django_db

FAILED = reply(500)
EVERY = pytest.mark.parametrize("policy", list(PROBES))
ALLOWED = 20


def look_and_send(times: int = 1) -> None:
    """Let the tick look, and do what it wakes."""
    for _ in range(times):
        found = tick.look(ALIAS)
        inline.deliver(sorted({*found.due, *found.neglected}))


def hold(endpoint: Endpoint, count: int) -> None:
    """Let so many deliveries of events of their own wait at an endpoint."""
    (first,) = waiting(endpoint)
    copies(OutboxEntry.objects.get(), count - 1, id="-n", event_id="event_id || '-' || n")
    copies(first.event, count - 1, id="-n", outbox_id="-n", public_id="public_id || '-' || n")
    copies(first, count - 1, event_id="-n", position="position + n")


class Limited:
    """Takes so many requests a second of the clock's, and answers 429 to the others."""

    def __init__(self, clock: Clock, **headers: str) -> None:
        self.clock, self.no = clock, reply(429, **headers)
        self.taken: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def __call__(self, request: Request) -> AttemptResult:
        second = int(self.clock.ahead.total_seconds())
        if self.taken[second] >= ALLOWED:
            self.refused[second] += 1
            return self.no
        self.taken[second] += 1
        return OK


@pytest.mark.parametrize("headers", [{}, {"retry_after": "1"}], ids=["429", "retry-after"])
@EVERY
def test_our_own_backlog_does_not_open_it_again(
    policy: str, headers: dict[str, str], receiver: Receiver, clock: Clock
):
    """B117: ten thousand are held, the receiver is back and takes twenty a second."""
    endpoint = opened(policy)
    hold(endpoint, 10_000)
    limited = Limited(clock, **headers)
    receiver.always(endpoint, limited)
    for _ in range(3):
        look_and_send()
        clock.advance(seconds=61)
    assert breaker_of(endpoint) == "closed"
    for _ in range(20):
        look_and_send(3)
        clock.advance(seconds=1.1)
    assert changes(endpoint) == (["closed"] if policy == "strict" else ["half_opened", "closed"])
    busy = sorted(limited.taken)[-20:]
    assert sum(limited.taken[second] for second in busy) >= 15 * len(busy)
    assert max(limited.refused.values()) <= 2 * ALLOWED
    assert untouched(endpoint) > 9_000


def test_a_window_of_few_is_found_without_opening_it(receiver: Receiver, clock: Clock):
    """B117: it takes five at a time, and answers 429 to what is beyond."""
    endpoint = opened("strict")
    waiting(endpoint, 300)
    at_once = {"open": 0}

    def few(request: Request) -> AttemptResult:
        at_once["open"] += 1
        return OK if at_once["open"] <= 5 else reply(429)

    receiver.always(endpoint, few)
    for _ in range(40):
        at_once["open"] = 0
        send(claim(endpoint))()
        clock.advance(seconds=1.1)
    assert changes(endpoint) == ["closed"]
    assert Delivery.objects.filter(state="delivered").count() >= 100
    assert state_of(endpoint).window <= 8


def test_always_too_many_opens_it_after_all(receiver: Receiver, clock: Clock):
    """A receiver that never takes anything is no better for saying so politely."""
    endpoint = EndpointFactory(policy="strict", state__window=8)
    waiting(endpoint, 200)
    receiver.always(endpoint, reply(429))
    for _ in range(12):
        run_path()
        clock.advance(seconds=1.1)
    assert breaker_of(endpoint) == "open"
    assert untouched(endpoint) > 100


def test_a_short_rest_ends_with_a_wake(receiver: Receiver, bell: Bell):
    """The tick comes every five seconds; who asked for one second is not left alone for longer."""
    endpoint = EndpointFactory()
    waiting(endpoint, 2)
    receiver.always(endpoint, reply(429))
    bell.take()
    attempt(endpoint)
    assert bell.take().later[endpoint.pk] == pytest.approx(1, abs=0.2)


def test_a_window_restarts_small(receiver: Receiver, clock: Clock):
    endpoint = opened("strict", state__window=100)
    waiting(endpoint, 100)
    send(claim(endpoint))()
    assert (breaker_of(endpoint), state_of(endpoint).window) == ("closed", 4)
    assert len(claim(endpoint).jobs) == 4


@EVERY
def test_what_is_held_and_late_ends_in_time(policy: str, receiver: Receiver, clock: Clock):
    """While it stays open its backlog grows old: past their window deliveries end, many with each look."""
    endpoint = opened(policy)
    receiver.always(endpoint, FAILED)
    waiting(endpoint, 150)
    clock.advance(days=5)
    (fresh,) = waiting(endpoint)
    Delivery.objects.filter(pk=fresh.pk).update(started_at=timezone.now() + clock.ahead)
    for _ in range(6):
        look_and_send()
        clock.advance(seconds=61)
    states = Counter(Delivery.objects.values_list("state", flat=True))
    assert states == {"window_exceeded": 150, "pending": 1}
    assert breaker_of(endpoint) == "open"
    assert "schedule" not in triggers(endpoint)
    check_books()


@EVERY
def test_flipping_between_good_and_bad_opens_nothing(policy: str, receiver: Receiver, clock: Clock):
    """Every other answer is a 500: nothing is held, nobody is disabled, nobody is told."""
    own = {"waits": [1] * 20, "jitter": 0}
    endpoint = EndpointFactory(policy=policy, policy_overrides=own, state__window=50)
    turn = iter(range(10_000))
    receiver.always(endpoint, lambda request: OK if next(turn) % 2 else FAILED)
    waiting(endpoint, 60)
    for _ in range(20):
        run_path()
        clock.advance(seconds=1.1)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    assert (breaker_of(endpoint), changes(endpoint)) == ("closed", [])
    assert not Event.objects.filter(type__startswith="webhook.").exists()


@EVERY
def test_nine_bad_ones_and_a_good_one_for_ever(policy: str, receiver: Receiver):
    endpoint = EndpointFactory(policy=policy, state__window=100)
    most = 9 if policy == "strict" else 29
    receiver.script(endpoint, *([FAILED] * most + [OK]) * 3)
    waiting(endpoint, 3 * (most + 1))
    run_path()
    assert (breaker_of(endpoint), state_of(endpoint).consecutive_failures) == ("closed", 0)


@EVERY
def test_answers_after_its_time_are_failures(policy: str, receiver: Receiver, clock: Clock):
    """The receiver took each and said so too late: it is asked less and less, then held."""
    endpoint = EndpointFactory(policy=policy, state__window=64)
    receiver.always(endpoint, TIMEOUT)
    waiting(endpoint, 120)
    windows = []
    while breaker_of(endpoint) == "closed":
        windows.append(state_of(endpoint).window)
        attempt(endpoint)
        clock.advance(seconds=20)
    assert windows == sorted(windows, reverse=True)
    assert state_of(endpoint).breaker_error == "timeout"
    assert untouched(endpoint) >= 50


def test_a_410_once_and_then_well_again(receiver: Receiver, clock: Clock):
    """Where a 410 disables nobody it is one failure; its message is lost to the receiver, the next is not."""
    endpoint = EndpointFactory(policy="exponential")
    receiver.script(endpoint, reply(410))
    gone, good = waiting(endpoint, 2)
    run_path()
    states = dict(Delivery.objects.values_list("pk", "state"))
    assert states == {gone.pk: "failed_permanent", good.pk: "delivered"}
    assert (state_of(endpoint).enabled, state_of(endpoint).consecutive_failures) == (True, 0)


@pytest.mark.parametrize("policy", ["standard", "strict"])
def test_a_410_once_disables_whatever_comes_after(policy: str, receiver: Receiver):
    """The others were under way; that they were good does not undo it."""
    endpoint = EndpointFactory(policy=policy)
    receiver.script(endpoint, OK, reply(410), OK, OK)
    waiting(endpoint, 4)
    attempt(endpoint)
    state = state_of(endpoint)
    assert (state.enabled, state.disabled_reason) == (False, "gone")
    assert Delivery.objects.filter(state="delivered").count() == 3


def test_a_410_behind_the_opening_still_disables(receiver: Receiver):
    endpoint = EndpointFactory(policy="strict", state__window=100)
    receiver.script(endpoint, *[FAILED] * 12, reply(410))
    waiting(endpoint, 13)
    attempt(endpoint)
    assert (breaker_of(endpoint), state_of(endpoint).disabled_reason) == ("open", "gone")


@EVERY
def test_a_probe_that_is_refused_for_good_keeps_its_delivery(policy: str, receiver: Receiver):
    """Beside the schedule a failure counts for nothing, a 404 no more than a time-out."""
    endpoint = opened(policy)
    waiting(endpoint)
    receiver.always(endpoint, reply(404))
    attempt(endpoint)
    row = Delivery.objects.get()
    assert (row.state, row.step, row.attempts, row.last_error) == ("pending", 0, 1, "")


@EVERY
def test_one_that_is_always_refused_does_not_hold_the_others_for_ever(
    policy: str, receiver: Receiver, clock: Clock
):
    """The receiver is well but for one message, which happens to be the oldest that is held."""
    endpoint = opened(policy)
    poison, *_ = waiting(endpoint, 30)
    bad = poison.event.public_id
    receiver.always(endpoint, lambda request: reply(404) if bad in str(request.headers) else OK)
    for _ in range(8):
        look_and_send()
        clock.advance(seconds=61)
    assert breaker_of(endpoint) == "closed"
    assert Delivery.objects.filter(state="delivered").count() == 29
    poison.refresh_from_db()
    assert poison.state == "failed_permanent"


@pytest.mark.parametrize("ordering", ["fifo", "subject"])
@EVERY
def test_a_head_that_is_always_refused_does_not_block_its_lane_for_ever(
    policy: str, ordering: str, receiver: Receiver, clock: Clock
):
    """While it stands back a ping, or another lane, asks; then its schedule ends it and the lane goes on."""
    several = 1 if ordering == "fifo" else 100
    endpoint = opened(policy, ordering=ordering, max_in_flight=several)
    rows = [row for owner in "ab" for row in waiting(endpoint, 4, owner=("order", owner))]
    bad = rows[0].event.public_id
    receiver.always(endpoint, lambda request: reply(404) if bad in str(request.headers) else OK)
    for _ in range(9):
        look_and_send(2)
        clock.advance(seconds=61)
    states = [row.state for row in Delivery.objects.order_by("position")]
    assert states == ["failed_permanent", *["delivered"] * 7]
    assert breaker_of(endpoint) == "closed"
    sent = [event_id for event_id in receiver.ids(endpoint) if event_id != bad]
    for lane in (rows[1:4], rows[4:]):
        mine = [row.event.public_id for row in lane]
        assert [event_id for event_id in sent if event_id in mine] == mine
    check_books()


@pytest.mark.parametrize("count", [1, 30])
@EVERY
def test_it_recovers_from_every_length_of_silence(policy: str, count: int, receiver: Receiver, clock: Clock):
    """However long nobody looked: the next look probes, and everything in its window arrives once."""
    endpoint = opened(policy)
    waiting(endpoint, count)
    clock.advance(hours=50)
    for _ in range(4):
        look_and_send()
        clock.advance(seconds=61)
    waiting(endpoint)
    run_path()
    assert breaker_of(endpoint) == "closed"
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    pings = Attempt.objects.filter(event_type="webhook.ping").count()
    assert len(receiver.requests) == count + 1 + pings


def test_other_endpoints_notice_nothing(receiver: Receiver, clock: Clock, until: Callable[..., Any]):
    """A breaker is one endpoint's alone."""
    sick, well = opened("strict", due=False), EndpointFactory(policy="strict")
    for endpoint in (sick, well):
        waiting(endpoint, 10)
    run_path()
    assert (untouched(sick), untouched(well)) == (10, 0)
    assert not Endpoint.objects.filter(pk=well.pk, state__woken_until__gt=timezone.now() + timedelta(days=1))


@pytest.mark.parametrize("policy", ["quick", "strict", "exponential"])
def test_a_head_that_always_fails_ends_by_its_schedule(policy: str, receiver: Receiver, clock: Clock):
    """A 500 for one event alone, which is due again before the breaker lets anything through."""
    own = {"waits": [1, 1, 1, 1], "jitter": 0, "breaker": {"failures": 3, "open_seconds": 30}}
    endpoint = EndpointFactory(policy=policy, policy_overrides=own, ordering="fifo", max_in_flight=1)
    rows = waiting(endpoint, 6)
    bad = rows[0].event.public_id
    receiver.always(endpoint, lambda request: FAILED if bad in str(request.headers) else OK)
    for _ in range(240):
        look_and_send(2)
        clock.advance(seconds=15)
        if not Delivery.objects.filter(state="pending").exists():
            break
    states = [row.state for row in Delivery.objects.order_by("position")]
    assert states == ["exhausted", *["delivered"] * 5]
    assert breaker_of(endpoint) == "closed"
    assert {"probe", "schedule"} <= set(triggers(endpoint))
    sent = [event_id for event_id in receiver.ids(endpoint) if event_id != bad]
    mine = [row.event.public_id for row in rows[1:]]
    assert [event_id for event_id in sent if event_id in mine] == mine
    check_books()


@EVERY
def test_who_resumes_it_lets_go_what_stands_back_too(policy: str, receiver: Receiver, clock: Clock):
    endpoint = opened(policy)
    (row,) = waiting(endpoint)
    receiver.always(endpoint, FAILED)
    look_and_send()
    row.refresh_from_db()
    assert (triggers(endpoint), row.state) == (["probe"], "pending")
    assert row.due_at > timezone.now() + timedelta(seconds=30)
    receiver.always(endpoint, OK)
    resume(operator("system", "test"), endpoint)
    look_and_send()
    row.refresh_from_db()
    assert (row.state, breaker_of(endpoint)) == ("delivered", "closed")
