"""Renewal of claims: a slow chain keeps its lane as long as it makes progress and no gate is shut."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointState, Tenant
from webhooks_app.pipeline import batch, engine, renewal, sending
from webhooks_app.pipeline import lease as leasing
from webhooks_app.pipeline.hints import Hints
from webhooks_app.pipeline.renewal import half_spent, renew
from webhooks_app.pipeline.work import Lease

from .conftest import Clock, Worker
from .driving import ALIAS, check_books, claim, committed, send, waiting
from .factories import TenantFactory
from .ordered import Watch, emit_owned, ordered, owned
from .receiver import OK, Receiver

ROWS = 5


def ends(held: Lease) -> set[Any]:
    """Return the ends of a claim, as its rows say, in seconds after it was made."""
    rows = Delivery.objects.filter(lease_token=held.token).values_list("lease_until", flat=True)
    return {round((until - held.claimed_at).total_seconds()) for until in rows}


@pytest.mark.django_db
def test_a_renewed_claim_holds_as_long_as_a_new_one(clock: Clock):
    endpoint = ordered("fifo")
    waiting(endpoint, ROWS)
    held = claim(endpoint)
    clock.advance(seconds=8)
    renew(ALIAS, held, held.units)
    assert ends(held) == {38}
    assert round(held.seconds_left(held.mark, endpoint.pk)) == 38
    clock.advance(seconds=29)
    assert not claim(endpoint).jobs
    state = EndpointState.objects.get()
    assert round((state.owner_until - held.claimed_at).total_seconds()) == 38


@pytest.mark.django_db
def test_the_chain_of_a_killed_worker_is_taken_over_when_the_renewal_ends(receiver: Receiver, clock: Clock):
    endpoint = ordered("fifo")
    rows = waiting(endpoint, ROWS)
    held = claim(endpoint)
    for _ in range(3):
        clock.advance(seconds=20)
        renew(ALIAS, held, held.units)
    clock.advance(seconds=31)
    renew(ALIAS, held, held.units)
    assert ends(held) == {90}, "what has lapsed is not renewed"
    again = claim(endpoint)
    assert [job.id for job in again.jobs] == [row.pk for row in rows]
    clock.advance(seconds=8)
    renew(ALIAS, held, held.units)
    assert (ends(held), ends(again)) == (set(), {30}), "the claim of another is not touched"
    send(again)()
    check_books()


@pytest.mark.django_db
def test_what_is_recorded_is_not_claimed_again(receiver: Receiver, clock: Clock):
    endpoint = ordered("subject")
    done, open_ = owned(endpoint, "a", 2), owned(endpoint, "b", 2)
    held = claim(endpoint)
    Delivery.objects.filter(pk__in=[row.pk for row in done]).update(lease_token=None, lease_until=None)
    clock.advance(seconds=8)
    renew(ALIAS, held, held.units)
    leased = Delivery.objects.exclude(lease_until=None).values_list("pk", flat=True)
    assert sorted(leased) == [row.pk for row in open_]


def pause(endpoint: Endpoint) -> None:
    EndpointState.objects.update(paused_at=timezone.now())


def disable(endpoint: Endpoint) -> None:
    EndpointState.objects.update(enabled=False)


def delete(endpoint: Endpoint) -> None:
    Endpoint.objects.update(deleted_at=timezone.now())


def hold(endpoint: Endpoint) -> None:
    EndpointState.objects.update(hold_until=timezone.now() + timedelta(hours=1))


def open_breaker(endpoint: Endpoint) -> None:
    EndpointState.objects.update(breaker="half_open")


def suspend(endpoint: Endpoint) -> None:
    Tenant.objects.update(suspended_at=timezone.now())


def edit(endpoint: Endpoint) -> None:
    Endpoint.objects.update(revision=2)


def live_anew(endpoint: Endpoint) -> None:
    EndpointState.objects.update(generation=2)


@pytest.mark.django_db
@pytest.mark.parametrize("change", [pause, disable, delete, hold, open_breaker, suspend, edit, live_anew])
def test_what_has_changed_meanwhile_is_asked_of_the_next_claim(
    change: Callable[[Endpoint], None], clock: Clock
):
    """A pause, or another URL, does not wait for the end of a long chain."""
    endpoint = ordered("fifo", tenant_id=TenantFactory().pk, policy="strict")
    waiting(endpoint, ROWS)
    held = claim(endpoint)
    clock.advance(seconds=8)
    change(endpoint)
    renew(ALIAS, held, held.units)
    assert (ends(held), held.renewed) == ({35}, {})


@pytest.mark.django_db
def test_others_in_the_same_claim_keep_their_end(clock: Clock):
    slow, quick = ordered("fifo"), ordered("fifo")
    for endpoint in (slow, quick):
        waiting(endpoint, ROWS)
    held = claim(slow, quick)
    clock.advance(seconds=8)
    renew(ALIAS, held, [unit for unit in held.units if unit[0].endpoint_id == slow.pk])
    assert held.renewed.keys() == {slow.pk}
    assert round(held.seconds_left(held.mark, quick.pk)) == 30
    assert round(held.seconds_left(held.mark)) == 38


@pytest.mark.django_db
def test_only_chains_whose_margin_is_half_gone_are_renewed(receiver: Receiver):
    chained, single = ordered("subject"), ordered("none")
    owned(chained, "a", ROWS)
    waiting(chained, 1)
    waiting(single, 2)
    held = claim(chained, single)
    sent = batch.Batch(held, {}, lambda _: None)
    assert half_spent(sent, held.mark + 7.4) == []
    units = half_spent(sent, held.mark + 7.6)
    assert {unit[0].endpoint_id for unit in units} == {chained.pk}
    assert sorted(map(len, units)) == [1, ROWS], "what goes beside the chain shares its end"
    for unit in held.units:
        if len(unit) > 1:
            sent.send(unit, None, lambda: True)
    assert half_spent(sent, held.mark + 7.6) == []


@pytest.fixture
def short_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims of 3.4 s; requests may start in the first 2.3, and the renewal is due after 1.2."""
    for module in (leasing, renewal):
        monkeypatch.setattr(module, "MARGIN", timedelta(seconds=2.4))
    monkeypatch.setattr(sending, "SPARE_SECONDS", 0.1)
    monkeypatch.setattr(renewal, "EVERY", 0.05)


QUICK = {"policy_overrides": {"total_timeout": 1, "connect_timeout": 1}}


def claims_made() -> int:
    """Return how many claims made the attempts there are: each gives its time to their ids."""
    return len({attempt_id.int >> 80 for attempt_id in Attempt.objects.values_list("id", flat=True)})


@committed
@pytest.mark.usefixtures("short_claims")
def test_the_engine_renews_the_claim_of_a_slow_chain(
    receiver: Receiver, worker: Worker, until: Callable[..., None]
):
    endpoint = ordered("fifo", **QUICK)
    watch = Watch({}, pause=0.12)
    receiver.always(endpoint, watch)
    ids = watch.emit(endpoint, "a", 25)
    worker.ring(Hints(fan_out=True))
    until(lambda: Delivery.objects.filter(state="delivered").count() == 25)
    assert (watch.seen[""], watch.overlaps) == (ids, [])
    assert claims_made() == 1
    check_books()


@committed
@pytest.mark.usefixtures("short_claims")
def test_a_pause_ends_a_slow_chain_within_its_claim(
    receiver: Receiver, worker: Worker, until: Callable[..., None]
):
    endpoint = ordered("fifo", **QUICK)
    watch = Watch({}, pause=0.1)
    receiver.always(endpoint, watch)
    watch.emit(endpoint, "a", 50)
    worker.ring(Hints(fan_out=True))
    until(lambda: len(watch.seen[""]) >= 5)
    pause(endpoint)
    until(lambda: not Delivery.objects.exclude(lease_token=None).exists())
    assert 5 <= len(watch.seen[""]) < 50
    check_books_of_open()


def check_books_of_open() -> None:
    rows = Delivery.objects.filter(state="pending").values_list("attempts", "lapses", "lease_token")
    assert set(rows) == {(0, 0, None)}


@committed
@pytest.mark.usefixtures("short_claims")
def test_a_renewal_that_fails_costs_nothing_but_another_claim(
    receiver: Receiver, worker: Worker, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    def away(*_: Any) -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(renewal, "renew", away)
    endpoint = ordered("fifo", **QUICK)
    receiver.always(endpoint, lambda _: time.sleep(0.12) or OK)
    ids = emit_owned(endpoint, "a", 25)
    worker.ring(Hints(fan_out=True))
    until(lambda: Delivery.objects.filter(state="delivered").count() == 25)
    assert receiver.ids() == ids
    assert claims_made() > 1
    assert engine.engine().room().senders == engine.engine().senders.most
    check_books()


def test_nothing_is_sent_of_a_claim_beyond_its_end(monkeypatch: pytest.MonkeyPatch):
    """Whoever sends looks at the end that the last renewal gave."""
    now = timezone.now()
    held = Lease(token=None, claimed_at=now, until=now + timedelta(seconds=30), mark=100.0)  # type: ignore[arg-type]
    assert held.seconds_left(110.0, 7) == 20
    held.renewed[7] = now + timedelta(seconds=50)
    assert (held.seconds_left(110.0, 7), held.seconds_left(110.0, 8), held.seconds_left(110.0)) == (
        40,
        20,
        40,
    )
