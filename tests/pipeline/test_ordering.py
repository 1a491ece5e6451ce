"""Strict order (`fifo`): one request at a time, oldest first; a failing head blocks, waiting is free."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import inline, requeue, tick
from webhooks_app.pipeline.batch import Batch, contents_of, prepare
from webhooks_app.pipeline.lanes import CHAIN
from webhooks_app.pipeline.sending import Configs
from webhooks_app.pipeline.transactions import short

from .conftest import Bell, Clock
from .driving import ALIAS, attempt, attempts_of, check_books, claim, run_path, send, waiting
from .factories import emit_for
from .ordered import check_lanes, crowd, ids_of, ordered, units_of
from .receiver import OK, TIMEOUT, Receiver, reply

pytestmark = pytest.mark.django_db

ABORT = reply(400, webhook_delivery="abort-message")


def lapse(clock: Clock) -> None:
    clock.advance(seconds=31)


def facts(rows: list[Delivery], *names: str) -> list[Any]:
    found = {row["pk"]: row for row in Delivery.objects.values("pk", *names)}
    return [tuple(found[row.pk][name] for name in names) for row in rows]


def test_a_chain_goes_out_at_a_time_and_nothing_beside_it(receiver: Receiver):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 2 * CHAIN + 7)
    keys = [row.pk for row in rows]
    for start in (0, CHAIN, 2 * CHAIN):
        held = claim(endpoint)
        assert units_of(held) == [keys[start : start + CHAIN]]
        assert not claim(endpoint).jobs
        check_lanes()
        send(held)()
    assert receiver.ids() == ids_of(rows)
    check_books()


def test_the_oldest_position_goes_first_whatever_came_due_before():
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 4)
    now = timezone.now()
    for hours, row in enumerate(rows):
        Delivery.objects.filter(pk=row.pk).update(due_at=now - timedelta(hours=hours))
    assert units_of(claim(endpoint)) == [[row.pk for row in rows]]


def test_a_failing_head_blocks_and_who_waits_behind_it_uses_nothing(receiver: Receiver, clock: Clock):
    """B042"""
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 6)
    receiver.script(endpoint, OK, OK, reply(500))
    recorded = attempt(endpoint)
    assert (len(recorded.attempts), recorded.released) == (3, 3)
    assert facts(rows, "state", "attempts", "lapses", "lease_token") == [
        *[("delivered", 1, 0, None)] * 2,
        ("pending", 1, 0, None),
        *[("pending", 0, 0, None)] * 3,
    ]
    check_lanes()
    held = claim(endpoint)
    assert (held.jobs, held.more) == ((), frozenset())
    clock.advance(seconds=34)
    run_path()
    assert receiver.ids() == ids_of([*rows[:3], *rows[2:]])
    numbers = [[each.number for each in attempts_of(row)] for row in rows]
    assert numbers == [[1], [1], [1, 2], [1], [1], [1]]
    check_books()


@pytest.mark.parametrize("answer", [TIMEOUT, reply(302), reply(404), reply(503, retry_after="60")])
def test_whatever_is_no_success_ends_the_chain(answer: Any, receiver: Receiver):
    endpoint = ordered("fifo")
    waiting(endpoint, 3)
    receiver.script(endpoint, answer)
    inline.deliver([endpoint.pk])
    assert len(receiver.requests) == 1


def test_the_next_goes_when_the_head_has_ended_by_its_policy(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo", policy_overrides={"waits": [60, 60], "jitter": 0})
    bad, *good = waiting(endpoint, 3)
    receiver.script(endpoint, *[reply(500)] * 3)
    for _ in range(3):
        inline.deliver([endpoint.pk])
        assert set(receiver.ids()) == {bad.event.public_id} or Delivery.objects.get(pk=bad.pk).finished_at
        clock.advance(seconds=60)
    assert receiver.ids() == ids_of([bad] * 3 + good)
    assert facts([bad, *good], "state", "attempts") == [("exhausted", 3), *[("delivered", 1)] * 2]


def test_a_head_that_ends_at_once_lets_the_next_go_at_once(receiver: Receiver):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 3)
    receiver.script(endpoint, ABORT)
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(rows)
    assert [state for (state,) in facts(rows, "state")] == ["failed_permanent", "delivered", "delivered"]


def test_a_failed_chain_wakes_nobody_in_vain(receiver: Receiver, bell: Bell):
    """What is released is looked at once more, and then left to the head's retry."""
    endpoint = ordered("fifo")
    waiting(endpoint, 5)
    receiver.script(endpoint, reply(500))
    bell.take()
    attempt(endpoint)
    assert list(bell.take().endpoint_ids) == [endpoint.pk]
    inline.deliver([endpoint.pk])
    hints = bell.take()
    assert (list(hints.endpoint_ids), hints.later) == ([], {})


@pytest.mark.parametrize("places", [[0], [1], [3], [0, 1, 3], [0, 1, 2, 3]])
def test_expired_rows_end_and_do_not_stop_a_chain(places: list[int], receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 4)
    expired = [rows[place] for place in places]
    keys = [row.pk for row in expired]
    Delivery.objects.filter(pk__in=keys).update(expires_at=timezone.now() + timedelta(minutes=1))
    clock.advance(minutes=2)
    held = claim(endpoint)
    assert [each.delivery_id for each in held.ended] == keys
    left = [row for row in rows if row not in expired]
    assert units_of(held) == ([[row.pk for row in left]] if left else [])
    check_lanes()
    send(held)()
    assert receiver.ids() == ids_of(left)
    assert facts(expired, "state", "attempts") == [("expired", 0)] * len(expired)
    check_books()


def test_a_backlog_that_waited_too_long_ends_and_the_rest_is_sent(receiver: Receiver, clock: Clock):
    """More than a chain of rows that are too late, before one that is not."""
    endpoint = ordered("fifo", policy_overrides={"time_to_live": 3600})
    old = waiting(endpoint, 3 * CHAIN + 1)
    clock.advance(hours=2)
    Delivery.objects.update(started_at=timezone.now())
    fresh = waiting(endpoint, 2)
    Delivery.objects.filter(pk__in=[row.pk for row in fresh]).update(
        started_at=timezone.now() + timedelta(hours=2)
    )
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(fresh)
    assert Delivery.objects.filter(state="expired").count() == len(old)


def test_the_chain_of_a_killed_worker_is_claimed_again_in_order(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 5)
    keys = [row.pk for row in rows]
    assert units_of(claim(endpoint)) == [keys]
    clock.advance(seconds=29)
    assert not claim(endpoint).jobs
    clock.advance(seconds=2)
    held = claim(endpoint)
    assert units_of(held) == [keys]
    assert {job.lapses for job in held.jobs} == {1}
    send(held)()
    assert receiver.ids() == ids_of(rows)
    assert set(facts(rows, "attempts", "lapses", "state")) == {(1, 0, "delivered")}
    check_books()


def test_a_worker_that_wakes_up_too_late_records_nothing(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 3)
    frozen = send(claim(endpoint))
    lapse(clock)
    held = claim(endpoint)
    assert not frozen().attempts
    assert facts(rows, "state", "lease_token") == [("pending", held.token)] * 3
    send(held)()
    check_books()


def test_who_killed_its_worker_twice_goes_alone(receiver: Receiver, clock: Clock):
    """Nobody can tell which of a chain it was, so every one of them goes alone, in order."""
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 3)
    for _ in range(2):
        claim(endpoint)
        lapse(clock)
    fresh = waiting(endpoint, 3)
    for row in rows:
        held = claim(endpoint)
        assert units_of(held) == [[row.pk]]
        assert endpoint.pk in held.more
        send(held)()
    assert units_of(claim(endpoint)) == [[row.pk for row in fresh]]
    assert receiver.ids() == ids_of(rows)


def test_who_killed_its_worker_three_times_has_failed_and_blocks(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo", policy_overrides={"waits": [60], "jitter": 0})
    rows = waiting(endpoint, 2)
    for _ in range(3):
        claim(endpoint)
        lapse(clock)
    held = claim(endpoint)
    assert [job.id for job in held.lost] == [rows[0].pk]
    send(held)()
    assert [each.error for each in attempts_of(rows[0])] == ["worker_lost"]
    assert not claim(endpoint).jobs
    clock.advance(seconds=61)
    run_path()
    assert receiver.ids() == ids_of(rows)
    check_books()


def test_an_unreadable_body_stops_its_lane_for_a_moment(
    receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 3)
    held = claim(endpoint)
    with monkeypatch.context() as patched:
        patched.setattr("tests.pipeline.driving.contents_of", lambda alias, lease: {})
        assert send(held)().released == 3
    assert not claim(endpoint).jobs
    check_lanes()
    clock.advance(seconds=11)
    run_path()
    assert receiver.ids() == ids_of(rows)


def test_a_stopping_process_gives_the_whole_chain_back():
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 4)
    recorded = send(claim(endpoint), stopping=True)()
    assert (recorded.released, recorded.wake) == (4, {endpoint.pk})
    assert set(facts(rows, "attempts", "lapses", "lease_token")) == {(0, 0, None)}
    assert len(claim(endpoint).jobs) == 4


def test_a_slow_receiver_costs_a_chain_no_more_than_its_claim_lasts(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """The rest is given back before the claim could lapse, and claimed again."""
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 8)
    held = claim(endpoint)

    def slowly(_: Any) -> Any:
        held.mark -= 5.0
        return OK

    receiver.always(endpoint, slowly)
    recorded = send(held)()
    assert (len(recorded.attempts), recorded.released) == (3, 5)
    assert recorded.wake == {endpoint.pk}
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(rows)
    check_books()


def test_a_place_for_one_is_enough_for_a_chain():
    """`max_in_flight` counts a chain as one: its requests go one after another."""
    endpoint = ordered("fifo", max_in_flight=1)
    rows = waiting(endpoint, 4)
    assert units_of(claim(endpoint)) == [[row.pk for row in rows]]
    assert not claim(endpoint).jobs


def test_arrivals_while_a_chain_is_out_wait_for_its_end_and_no_longer(receiver: Receiver, bell: Bell):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 3)
    held = claim(endpoint)
    rows += waiting(endpoint, 2)
    assert not claim(endpoint).jobs
    assert EndpointState.objects.get().starved
    bell.take()
    send(held)()
    assert list(bell.take().endpoint_ids) == [endpoint.pk]
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(rows)


def test_a_chain_under_way_wakes_nobody_who_waits_for_its_end(receiver: Receiver, until: Callable[..., None]):
    """What is recorded of it frees no place, so a look at the endpoint would be in vain."""
    endpoint = ordered("fifo")
    waiting(endpoint, 3)
    held, configs, go_on = claim(endpoint), Configs(), threading.Event()
    assert EndpointState.objects.update(starved=True)

    def hang(_: Any) -> Any:
        assert go_on.wait(10)
        return OK

    receiver.script(endpoint, OK, OK, hang)
    prepare(ALIAS, held, configs)
    batch = Batch(held, contents_of(ALIAS, held), lambda _: None)
    sender = threading.Thread(target=lambda: batch.send(held.units[0], configs.get(endpoint.pk), bool))
    sender.start()
    until(lambda: batch._open == 1)
    recorded = batch.record(ALIAS, configs)
    assert (len(recorded.attempts), recorded.wake) == (2, set())
    go_on.set()
    sender.join(10)
    assert batch.record(ALIAS, configs).wake == {endpoint.pk}


def test_what_waits_behind_a_failed_head_does_not_keep_the_tick_busy(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, 5)
    receiver.script(endpoint, reply(500))
    inline.deliver([endpoint.pk])
    assert tick.look(ALIAS).due == []
    rows += waiting(endpoint, 1)
    inline.deliver([endpoint.pk])
    assert tick.look(ALIAS).due == []
    clock.advance(seconds=34)
    assert tick.look(ALIAS).due == [endpoint.pk]
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of([rows[0], *rows])


def test_a_chain_that_was_full_is_followed_by_the_next(receiver: Receiver):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, CHAIN + 1)
    assert claim(endpoint).more == {endpoint.pk}
    assert len(rows) == CHAIN + 1


def test_rows_with_and_without_a_lane_go_side_by_side(receiver: Receiver):
    """As after a change of the endpoint's ordering."""
    endpoint = ordered("none")
    loose = waiting(endpoint, 3)
    Endpoint.objects.update(ordering="fifo")
    strict = waiting(endpoint, 3)
    assert facts(loose + strict, "lane", "priority") == [*[(None, 0)] * 3, *[("", 3)] * 3]
    receiver.script(endpoint, reply(500))
    units = units_of(claim(endpoint))
    assert sorted(units) == sorted([[row.pk] for row in loose] + [[row.pk for row in strict]])


@pytest.mark.parametrize("kind", ["loose", "strict"])
def test_neither_kind_blocks_the_other(kind: str, receiver: Receiver):
    endpoint = ordered("none")
    loose = waiting(endpoint, 3)
    Endpoint.objects.update(ordering="fifo")
    strict = waiting(endpoint, 3)
    blocked, free = (loose, strict) if kind == "loose" else (strict, loose)
    later = timezone.now() + timedelta(hours=1)
    Delivery.objects.filter(pk=blocked[0].pk).update(due_at=later)
    inline.deliver([endpoint.pk])
    sent = receiver.ids()
    assert blocked[0].event.public_id not in sent
    assert set(ids_of(free)) <= set(sent)


@pytest.mark.parametrize("blocked", ["waiting", "being sent"])
def test_a_blocked_strict_lane_does_not_hide_the_lanes_of_owners(blocked: str, receiver: Receiver):
    """As after a change from `fifo` to `subject` while the receiver was down."""
    endpoint = ordered("fifo", state__window=4)
    (head,) = waiting(endpoint)
    if blocked == "waiting":
        Delivery.objects.update(due_at=timezone.now() + timedelta(hours=1))
    else:
        claim(endpoint)
    crowd(endpoint, "", 1_200)
    Endpoint.objects.update(ordering="subject")
    owned = [ref.id for ref in emit_for(endpoint, 3, owner=("order", "7"))]
    inline.fan_out()
    inline.deliver([endpoint.pk])
    assert receiver.ids() == owned
    check_lanes()
    assert Delivery.objects.get(pk=head.pk).attempts == 0


def test_a_replayed_event_takes_its_turn_at_the_end(receiver: Receiver, replay: Callable[[Delivery], None]):
    endpoint = ordered("fifo")
    first, second = waiting(endpoint, 2)
    run_path()
    third, fourth = waiting(endpoint, 2)
    receiver.script(endpoint, reply(500))
    attempt(endpoint)
    replay(first)
    check_lanes()
    Delivery.objects.filter(pk=third.pk).update(due_at=timezone.now())
    run_path()
    assert receiver.ids() == ids_of([first, second, third, third, fourth, first])


@pytest.fixture
def replay() -> Callable[[Delivery], None]:
    """Make an ended delivery due again, as a replay does."""

    def again(row: Delivery) -> None:
        event, endpoint = row.event, row.endpoint
        place = requeue.Place.of(event, endpoint.ordering, row.pk)
        now = timezone.now()
        short(
            ALIAS,
            lambda tx: requeue.queue(
                tx, endpoint.pk, [place], priority=requeue.BULK, now=now, delivered_too=True
            ),
        )

    return again
