"""Order by owner (`subject`): one request at a time for each owner; whoever is blocked blocks nobody else."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.actions.ending import End, end_open
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import claim as claiming
from webhooks_app.pipeline import inline, tick
from webhooks_app.pipeline.gates import BATCH_IN_ALL
from webhooks_app.pipeline.lanes import CHAIN, PARKED_AT_ONCE

from .conftest import Bell, Clock
from .driving import ALIAS, check_books, claim, run_path, send, waiting
from .factories import emit_for
from .ordered import check_lanes, crowd, ids_of, ordered, owned, units_of
from .receiver import OK, TIMEOUT, Receiver, reply

pytestmark = pytest.mark.django_db


def block(row: Delivery, **wait: float) -> None:
    """As after a failed attempt."""
    Delivery.objects.filter(pk=row.pk).update(due_at=timezone.now() + timedelta(**wait or {"hours": 1}))


def states(rows: list[Delivery]) -> list[str]:
    found = dict(Delivery.objects.values_list("pk", "state"))
    return [found[row.pk] for row in rows]


def parked() -> int:
    return Delivery.objects.filter(state="pending", due_at=None).count()


def test_owners_go_side_by_side_and_each_one_after_another(receiver: Receiver):
    endpoint = ordered("subject")
    rows = {owner: owned(endpoint, owner, 3) for owner in ("a", "b", "c")}
    held = claim(endpoint)
    assert units_of(held) == [[row.pk for row in mine] for mine in rows.values()]
    assert not claim(endpoint).jobs
    send(held)()
    check_books()


def test_events_without_an_owner_are_not_ordered():
    endpoint = ordered("subject")
    rows = waiting(endpoint, 3)
    assert [row.lane for row in rows] == [None] * 3
    assert len(claim(endpoint).units) == 3


def test_owners_of_several_tenants_are_not_taken_for_one(receiver: Receiver):
    endpoint = ordered("subject", tenant_id=None)
    for tenant in ("acme", "globex"):
        emit_for(tenant, 2, owner=("order", "1"))
    inline.fan_out()
    assert len(claim(endpoint).units) == 2


def test_many_owners_share_a_lease():
    """Every lane gets a part of the lease's size: no chain takes the others' places."""
    endpoint = ordered("subject")
    for number in range(20):
        owned(endpoint, str(number), 1)
    for number in range(20):
        owned(endpoint, str(number), 30)
    held = claim(endpoint)
    assert len(held.units) == 20
    assert {len(unit) for unit in held.units} == {BATCH_IN_ALL // 20}
    assert endpoint.pk in held.more


@pytest.mark.parametrize(("window", "most"), [(1, 100), (3, 100), (100, 1), (100, 3)])
def test_lanes_in_flight_are_bounded_and_each_counts_once(window: int, most: int, receiver: Receiver):
    endpoint = ordered("subject", state__window=window, max_in_flight=most)
    for number in range(5):
        owned(endpoint, str(number))
    for number in range(5):
        owned(endpoint, str(number), 3)
    first = claim(endpoint)
    assert [len(unit) for unit in first.units] == [4] * min(window, most)
    assert not claim(endpoint).jobs
    assert EndpointState.objects.get().starved
    assert send(first)().wake == {endpoint.pk}
    EndpointState.objects.update(window=window)
    assert len(claim(endpoint).units) == min(window, most, 5 - len(first.units))


def test_a_failing_owner_blocks_itself_alone(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    bad, good = owned(endpoint, "bad", 4), owned(endpoint, "good", 4)
    receiver.script(endpoint, OK, reply(500))
    inline.deliver([endpoint.pk])
    assert states(bad) == ["delivered", *["pending"] * 3]
    assert states(good) == ["delivered"] * 4
    assert parked() == 2
    check_lanes()
    clock.advance(seconds=34)
    run_path()
    assert [one for one in receiver.ids() if one in ids_of(bad)] == ids_of([*bad[:2], *bad[1:]])
    assert {row.attempts for row in Delivery.objects.exclude(pk=bad[1].pk)} == {1}
    check_books()


@pytest.mark.parametrize("window", [1, 4, 100])
def test_ten_thousand_rows_behind_a_blocked_head_hide_nobody(window: int, receiver: Receiver):
    endpoint = ordered("subject", state__window=window)
    (head,) = owned(endpoint, "blocked")
    block(head)
    crowd(endpoint, head.lane or "", 10_000)
    others = [*owned(endpoint, "one", 2), *owned(endpoint, "two", 2)]
    leases = 0
    while not (held := claim(endpoint)).jobs:
        leases += 1
        assert held.more == {endpoint.pk}
        assert leases <= 10_000 / PARKED_AT_ONCE + 1
    send(held)()
    inline.deliver([endpoint.pk])
    assert set(states(others)) == {"delivered"}
    assert parked() == 10_000
    check_lanes()


def test_what_comes_into_a_blocked_lane_is_parked_alone(receiver: Receiver):
    endpoint = ordered("subject")
    (head,) = owned(endpoint, "blocked")
    block(head)
    crowd(endpoint, head.lane or "", PARKED_AT_ONCE)
    claim(endpoint)
    assert parked() == PARKED_AT_ONCE
    owned(endpoint, "blocked")
    assert claim(endpoint).more == frozenset()
    assert parked() == PARKED_AT_ONCE + 1
    assert not receiver.requests


def test_what_a_dead_worker_held_behind_a_blocked_head_hides_nobody(receiver: Receiver, clock: Clock):
    """Its claims have lapsed; they come due again with the lane, and count as lapsed then."""
    endpoint = ordered("subject", state__window=4)
    rows = owned(endpoint, "blocked", CHAIN)
    assert len(claim(endpoint).jobs) == CHAIN
    Delivery.objects.filter(pk=rows[0].pk).update(lease_token=None, lease_until=None)
    block(rows[0], hours=1)
    clock.advance(seconds=31)
    others = owned(endpoint, "other", 2)
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(others)
    clock.advance(hours=1)
    held = claim(endpoint)
    assert [job.lapses for job in held.jobs] == [0] + [1] * (CHAIN - 1)
    send(held)()
    assert receiver.ids() == ids_of(others + rows)


def test_a_lane_that_is_being_sent_hides_nobody(receiver: Receiver):
    endpoint = ordered("subject", state__window=4)
    busy = owned(endpoint, "busy", 3 * CHAIN)
    held = claim(endpoint)
    assert len(held.units) == 1
    others = owned(endpoint, "other", 2)
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(others)
    send(held)()
    check_lanes()
    inline.deliver([endpoint.pk])
    assert [one for one in receiver.ids() if one in ids_of(busy)] == ids_of(busy)


def test_arrivals_while_their_lane_is_out_go_when_it_ends(receiver: Receiver, bell: Bell):
    endpoint = ordered("subject")
    rows = owned(endpoint, "a", 2)
    held = claim(endpoint)
    rows += owned(endpoint, "a", 2)
    inline.deliver([endpoint.pk])
    assert not receiver.requests
    assert parked() == 2
    bell.take()
    send(held)()
    assert list(bell.take().endpoint_ids) == [endpoint.pk]
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(rows)


def park_behind(endpoint: Endpoint, count: int = 3) -> list[Delivery]:
    """Make a lane whose head waits for its retry and whose other rows are parked."""
    rows = owned(endpoint, "a", count)
    block(rows[0])
    claim(endpoint)
    assert parked() == count - 1
    return rows


def test_a_cancelled_head_brings_the_next_at_once(receiver: Receiver, bell: Bell):
    endpoint = ordered("subject")
    head, *others = park_behind(endpoint)
    end_open(ALIAS, endpoint.pk, End(CANCELLED), only=[head.pk])
    check_lanes()
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(others)
    check_books()


def test_an_expired_head_brings_the_next_at_once(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    head, *others = park_behind(endpoint)
    Delivery.objects.filter(pk=head.pk).update(expires_at=timezone.now() + timedelta(minutes=1))
    clock.advance(hours=1)
    inline.deliver([endpoint.pk])
    assert states([head]) == ["expired"]
    assert receiver.ids() == ids_of(others)
    check_books()


def test_a_parked_row_that_expires_ends_when_its_lane_goes_on(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    rows = park_behind(endpoint)
    Delivery.objects.filter(pk=rows[1].pk).update(expires_at=timezone.now() + timedelta(minutes=1))
    clock.advance(hours=1)
    inline.deliver([endpoint.pk])
    assert states(rows) == ["delivered", "expired", "delivered"]
    check_books()


@pytest.mark.parametrize("answer", [TIMEOUT, reply(400, webhook_delivery="abort-message")])
def test_a_head_that_ends_by_its_answer_brings_the_next(answer: Any, receiver: Receiver, clock: Clock):
    endpoint = ordered("subject", policy_overrides={"waits": [3600], "jitter": 0})
    head, *others = owned(endpoint, "a", 3)
    receiver.script(endpoint, reply(500), answer)
    inline.deliver([endpoint.pk])
    assert parked() == 2
    clock.advance(hours=1)
    inline.deliver([endpoint.pk])
    assert states([head])[0] in ("exhausted", "failed_permanent")
    assert set(states(others)) == {"delivered"}
    assert receiver.ids() == ids_of([head, head, *others])


def test_a_retry_of_the_head_is_found_by_the_tick_and_takes_the_parked_along(
    receiver: Receiver, clock: Clock
):
    endpoint = ordered("subject")
    rows = park_behind(endpoint)
    assert tick.look(ALIAS).due == []
    clock.advance(hours=1)
    assert tick.look(ALIAS).due == [endpoint.pk]
    inline.deliver([endpoint.pk])
    assert receiver.ids() == ids_of(rows)


@pytest.mark.parametrize("name", ["disabled", "deleted"])
@pytest.mark.parametrize("lanes", [1, 3])
def test_the_end_of_an_endpoint_ends_what_is_parked(
    name: str, lanes: int, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    """A few rows in each transaction, and no end without one."""
    monkeypatch.setattr(claiming, "ENDS_AT_ONCE", 6)
    endpoint = ordered("subject")
    for number in range(lanes):
        rows = owned(endpoint, str(number), 20)
        block(rows[0])
    claim(endpoint)
    assert parked() == 19 * lanes
    clock.advance(hours=1)
    if name == "disabled":
        EndpointState.objects.update(enabled=False)
    else:
        Endpoint.objects.update(deleted_at=timezone.now())
    rounds = 0
    while (held := claim(endpoint)).more:
        assert len(held.ended) <= 6
        check_lanes()
        rounds += 1
        assert rounds <= 20 * lanes / 6 + 4
    assert not Delivery.objects.filter(state="pending").exists()
    assert set(Delivery.objects.values_list("state", "attempts")) == {("dead_lettered", 0)}
    assert not receiver.requests
    check_books()


def test_parked_rows_of_a_disabled_endpoint_live_on_when_it_is_enabled_in_time(
    receiver: Receiver, clock: Clock
):
    """Nothing of the lane came due: its head waits for its retry."""
    endpoint = ordered("subject")
    rows = park_behind(endpoint)
    EndpointState.objects.update(enabled=False)
    run_path()
    assert set(states(rows)) == {"pending"}
    EndpointState.objects.update(enabled=True)
    clock.advance(hours=1)
    run_path()
    assert receiver.ids() == ids_of(rows)


def test_a_paused_lane_goes_on_in_order(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    rows = park_behind(endpoint)
    EndpointState.objects.update(paused_at=timezone.now())
    clock.advance(hours=2)
    rows += owned(endpoint, "a", 2)
    assert not claim(endpoint).jobs
    EndpointState.objects.update(paused_at=None)
    run_path()
    assert receiver.ids() == ids_of(rows)
    assert set(Delivery.objects.values_list("attempts", flat=True)) == {1}


def test_a_change_to_no_order_leaves_the_old_lanes_in_order(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    rows = park_behind(endpoint)
    Endpoint.objects.update(ordering="none")
    loose = owned(endpoint, "a", 2)
    assert [row.lane for row in loose] == [None, None]
    inline.deliver([endpoint.pk])
    assert sorted(receiver.ids()) == sorted(ids_of(loose))
    clock.advance(hours=1)
    run_path()
    assert receiver.ids()[2:] == ids_of(rows)
