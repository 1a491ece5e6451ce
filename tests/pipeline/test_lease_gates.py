"""The gates of a lease: what is held, what is ended, and how much leaves at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.core.policies import STANDARD
from webhooks_app.models import Delivery, Endpoint, EndpointState, OutboxEntry, Partner, Tenant
from webhooks_app.pipeline import claim as claiming
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.lease import lease

from .conftest import Bell, Clock
from .driving import attempt, attempts_of, check_books, claim, claimed, run_path, send, waiting
from .factories import EndpointFactory, PartnerFactory, TenantFactory, emit_for
from .receiver import Receiver

pytestmark = pytest.mark.django_db


def set_state(endpoint: Endpoint, **values: Any) -> None:
    EndpointState.objects.filter(pk=endpoint.pk).update(**values)


def pause(endpoint: Endpoint) -> None:
    set_state(endpoint, paused_at=timezone.now())


def hold(endpoint: Endpoint) -> None:
    set_state(endpoint, hold_until=timezone.now() + timedelta(minutes=5))


def suspend_tenant(endpoint: Endpoint) -> None:
    Tenant.objects.filter(pk=endpoint.tenant_id).update(suspended_at=timezone.now())


def suspend_partner(endpoint: Endpoint) -> None:
    Partner.objects.update(suspended_at=timezone.now())


def open_again() -> None:
    EndpointState.objects.update(paused_at=None, hold_until=None)
    Tenant.objects.update(suspended_at=None)
    Partner.objects.update(suspended_at=None)


@pytest.mark.parametrize("close", [pause, hold, suspend_tenant, suspend_partner])
def test_a_closed_gate_leaves_the_rows_untouched(close: Callable[[Endpoint], None], receiver: Receiver):
    endpoint = EndpointFactory(tenant_id=TenantFactory(partner=PartnerFactory()).pk)
    waiting(endpoint, 3)
    before = list(Delivery.objects.order_by("pk").values())
    close(endpoint)
    held = claim(endpoint)
    assert (held.jobs, held.ended, held.more, held.later) == ((), (), frozenset(), {})
    assert list(Delivery.objects.order_by("pk").values()) == before
    open_again()
    run_path()
    assert len(receiver.requests) == 3
    check_books()


def test_a_suspended_partner_holds_its_own_endpoints():
    partner = PartnerFactory(suspended_at=timezone.now())
    tenant = TenantFactory(partner=partner)
    own = EndpointFactory(tenant_id=None, partner_id=partner.pk)
    platform = EndpointFactory(tenant_id=None)
    emit_for(tenant.pk)
    inline.fan_out()
    assert claimed(claim(own, platform)) == {platform.pk: 1}


def test_a_suspended_tenant_does_not_hold_its_partners_endpoints():
    tenant = TenantFactory(partner=PartnerFactory(), suspended_at=timezone.now())
    of_partner = EndpointFactory(tenant_id=None, partner_id=tenant.partner_id)
    mine = EndpointFactory(tenant_id=tenant.pk)
    emit_for(tenant.pk)
    inline.fan_out()
    assert claimed(claim(of_partner, mine)) == {of_partner.pk: 1}


def test_the_hosts_class_may_suspend(configure: Callable[..., None]):
    configure(TENANCY="tests.pipeline.test_fan_out.Host")
    bad, good = EndpointFactory(tenant_id="h-bad"), EndpointFactory(tenant_id="h-good")
    for endpoint in (bad, good):
        waiting(endpoint)
    assert claimed(claim(bad, good)) == {good.pk: 1}


def test_a_hold_ends_by_itself(clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint)
    hold(endpoint)
    clock.advance(minutes=4, seconds=55)
    assert not claim(endpoint).jobs
    clock.advance(seconds=6)
    assert len(claim(endpoint).jobs) == 1


@pytest.mark.parametrize("name", ["disabled", "deleted"])
def test_the_end_of_an_endpoint_ends_what_is_due(name: str, receiver: Receiver, clock: Clock):
    """B013, B022"""
    endpoint = EndpointFactory()
    due, later = waiting(endpoint, 2)
    Delivery.objects.filter(pk=later.pk).update(due_at=timezone.now() + timedelta(hours=1))
    if name == "disabled":
        set_state(endpoint, enabled=False)
    else:
        Endpoint.objects.update(deleted_at=timezone.now())
    held = claim(endpoint)
    assert not held.jobs
    assert [(each.delivery_id, each.state, each.error) for each in held.ended] == [
        (due.pk, "dead_lettered", f"endpoint_{name}")
    ]
    due.refresh_from_db()
    assert (due.state, due.last_error, due.attempts) == ("dead_lettered", f"endpoint_{name}", 0)
    assert not attempts_of(due)
    later.refresh_from_db()
    assert later.state == "pending"
    clock.advance(hours=2)
    run_path()
    later.refresh_from_db()
    assert later.state == "dead_lettered"
    assert not receiver.requests
    check_books()


def test_what_was_not_due_lives_on_when_enabled_again(receiver: Receiver, clock: Clock):
    """B022"""
    endpoint = EndpointFactory()
    waiting(endpoint)
    Delivery.objects.update(due_at=timezone.now() + timedelta(hours=1))
    set_state(endpoint, enabled=False)
    run_path()
    set_state(endpoint, enabled=True)
    clock.advance(hours=2)
    run_path()
    assert len(receiver.requests) == 1


def test_many_deliveries_of_a_dead_endpoint_end_in_portions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(claiming, "ENDS_AT_ONCE", 4)
    endpoint = EndpointFactory()
    waiting(endpoint, 10)
    set_state(endpoint, enabled=False)
    held = claim(endpoint)
    assert (len(held.ended), held.more) == (4, frozenset([endpoint.pk]))
    inline.deliver([endpoint.pk])
    assert Delivery.objects.filter(state="dead_lettered").count() == 10
    assert len([line for line in caplog.messages if "endpoint_disabled" in line]) == 6


def test_a_request_under_way_is_recorded_after_a_disable(receiver: Receiver):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    held = claim(endpoint)
    set_state(endpoint, enabled=False)
    assert not claim(endpoint).ended

    send(held)()
    delivery.refresh_from_db()
    assert delivery.state == "delivered"


@pytest.mark.parametrize(
    ("window", "cap", "expected"), [(4, 100, 4), (1, 100, 1), (50, 100, 12), (50, 3, 3), (100, 1, 1)]
)
def test_the_window_and_the_cap_bound_a_lease(window: int, cap: int, expected: int):
    endpoint = EndpointFactory(state__window=window, max_in_flight=cap)
    waiting(endpoint, 12)
    held = claim(endpoint)
    assert len(held.jobs) == expected
    assert (endpoint.pk in held.more) is (expected < 12)


def test_live_leases_use_up_the_window_until_they_lapse(clock: Clock):
    endpoint = EndpointFactory(state__window=5)
    waiting(endpoint, 12)
    assert [len(claim(endpoint).jobs) for _ in range(3)] == [5, 0, 0]
    assert EndpointState.objects.get().starved
    clock.advance(seconds=31)
    assert len(claim(endpoint).jobs) == 5


def test_a_live_lease_is_never_taken(clock: Clock):
    """B008"""
    endpoint = EndpointFactory(state__window=100)
    waiting(endpoint, 3)
    first = claim(endpoint)
    assert first.until - first.claimed_at == timedelta(seconds=STANDARD.total_timeout + 15)
    clock.advance(seconds=29)
    assert not claim(endpoint).jobs
    clock.advance(seconds=2)
    again = claim(endpoint)
    assert {job.id for job in again.jobs} == {job.id for job in first.jobs}
    assert again.token != first.token


def test_the_lease_fits_the_longest_attempt():
    endpoint = EndpointFactory(policy_overrides={"total_timeout": 60})
    waiting(endpoint)
    held = claim(endpoint)
    assert held.until - held.claimed_at == timedelta(seconds=75)


def test_expired_events_end_without_a_request(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint, 2, expires_at=timezone.now() + timedelta(minutes=1))
    waiting(endpoint, 1)
    clock.advance(minutes=2)
    run_path()
    assert len(receiver.requests) == 1
    rows = Delivery.objects.filter(state="expired").values_list("last_error", "attempts")
    assert list(rows) == [("event_unavailable", 0)] * 2
    check_books()


@pytest.mark.parametrize(("days", "own"), [(30, None), (3, 3), (3, "host")])
def test_events_older_than_the_retention_end(
    days: int, own: Any, receiver: Receiver, clock: Clock, configure: Callable[..., None]
):
    if own == "host":
        configure(TENANCY="tests.pipeline.test_fan_out.Host")
    tenant = "h-short" if own == "host" else TenantFactory(retention_days=own).pk
    endpoint = EndpointFactory(tenant_id=tenant, state__paused_at=timezone.now())
    waiting(endpoint)
    clock.advance(days=days, minutes=-1)
    assert not claim(endpoint).ended
    set_state(endpoint, paused_at=None)
    clock.advance(minutes=2)
    run_path()
    assert Delivery.objects.get().state == "expired"
    assert not receiver.requests


def test_a_heap_of_expired_events_does_not_hold_up_the_others(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint, 50, expires_at=timezone.now() + timedelta(minutes=1))
    clock.advance(minutes=2)
    fresh = emit_for(endpoint)
    inline.fan_out()
    inline.deliver([endpoint.pk])
    assert receiver.ids() == [ref.id for ref in fresh]
    assert Delivery.objects.filter(state="expired").count() == 50


def test_a_vanished_body_ends_in_one_step(receiver: Receiver):
    """B013"""
    endpoint = EndpointFactory()
    gone, kept = waiting(endpoint, 2)
    OutboxEntry.objects.filter(event_id=gone.event.public_id).delete()
    run_path()
    gone.refresh_from_db()
    assert (gone.state, gone.last_error, gone.attempts) == ("dead_lettered", "event_unavailable", 1)
    assert receiver.ids() == [kept.event.public_id]
    check_books()


def test_a_vanished_event_row_ends_in_one_step(receiver: Receiver):
    """B013"""
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    delivery.event.delete()
    run_path()
    assert Delivery.objects.values_list("state", "last_error").get() == ("dead_lettered", "event_unavailable")
    assert not receiver.requests


def test_the_oldest_due_goes_first():
    """B016"""
    endpoint = EndpointFactory(state__window=2)
    first, second, third = waiting(endpoint, 3)
    now = timezone.now()
    for row, hours in ((third, 3), (first, 2), (second, 1)):
        Delivery.objects.filter(pk=row.pk).update(due_at=now - timedelta(hours=hours))
    assert [job.id for job in claim(endpoint).jobs] == [third.pk, first.pk]


def test_nothing_that_is_not_due_leaves(clock: Clock):
    endpoint = EndpointFactory()
    waiting(endpoint)
    Delivery.objects.update(due_at=timezone.now() + timedelta(seconds=60))
    assert not claim(endpoint).jobs
    clock.advance(seconds=61)
    assert len(claim(endpoint).jobs) == 1


def test_ended_deliveries_are_never_claimed():
    endpoint = EndpointFactory()
    waiting(endpoint)
    for state in ("delivered", "failed_permanent", "exhausted", "expired", "dead_lettered", "cancelled"):
        Delivery.objects.update(state=state)
        assert not claim(endpoint).jobs


def test_unknown_endpoints_are_ignored():
    assert not lease("default", [4711, 4711], Room(10, 10)).jobs
    assert not lease("default", [], Room(10, 10)).jobs


def test_a_place_that_becomes_free_wakes_the_starved(receiver: Receiver, bell: Bell):
    endpoint = EndpointFactory(state__window=2, max_in_flight=2)
    waiting(endpoint, 4)

    held = claim(endpoint)
    assert not EndpointState.objects.get().starved
    assert not claim(endpoint).jobs
    assert EndpointState.objects.get().starved
    bell.take()
    send(held)()
    assert endpoint.pk in bell.take().endpoint_ids
    assert not EndpointState.objects.get().starved
    attempt(endpoint)
    assert endpoint.pk not in bell.take().endpoint_ids
