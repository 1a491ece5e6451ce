"""Fan-out: which deliveries an event gets, in which order, once."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from webhooks_app.events import emit
from webhooks_app.models import Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.pipeline import fan_out, inline, plan
from webhooks_app.pipeline.dispatch import has_waiting
from webhooks_app.pipeline.fan_out import fan_out_batch, fan_out_own

from .conftest import Bell
from .driving import ALIAS, committed, in_threads, keys_of
from .factories import EndpointFactory, PartnerFactory, TenantFactory, emit_for

pytestmark = pytest.mark.django_db


def receivers() -> set[int]:
    return set(Delivery.objects.values_list("endpoint_id", flat=True))


def test_an_entry_becomes_an_event_and_a_delivery(bell: Bell):
    endpoint = EndpointFactory()
    expires_at = timezone.now() + timedelta(days=1)
    (ref,) = emit_for(
        endpoint, identity="shop", owner=("order", "7"), subject="order 7", expires_at=expires_at
    )
    inline.fan_out()
    entry, event, delivery = OutboxEntry.objects.get(), Event.objects.get(), Delivery.objects.get()
    assert (event.public_id, event.type, event.sequence) == (ref.id, "order.paid", 1)
    for name in ("tenant_id", "identity_id", "owner_kind", "owner_id", "subject", "environment"):
        assert getattr(event, name) == getattr(entry, name)
    assert (event.occurred_at, event.recorded_at, event.expires_at) == (
        entry.occurred_at,
        entry.recorded_at,
        expires_at,
    )
    assert (event.outbox_alias, event.outbox_id, event.body) == (ALIAS, entry.pk, None)
    assert event.fanned_out_at is not None
    assert entry.dispatched_at is not None
    assert (delivery.endpoint_id, delivery.event_id, delivery.state) == (endpoint.pk, event.pk, "pending")
    assert (delivery.priority, delivery.attempts, delivery.step, delivery.lapses) == (0, 0, 0, 0)
    assert (delivery.occurred_at, delivery.expires_at) == (event.occurred_at, expires_at)
    assert delivery.due_at == delivery.created_at
    assert bell.take().endpoint_ids == {endpoint.pk: None}


def test_an_event_that_nobody_wants_is_done_with():
    emit_for("nobody")
    inline.fan_out()
    assert Event.objects.get().fanned_out_at is not None
    assert OutboxEntry.objects.get().dispatched_at is not None
    assert not Delivery.objects.exists()
    assert not has_waiting(ALIAS)


def test_positions_follow_the_outbox():
    endpoint = EndpointFactory()
    refs = emit_for(endpoint, 20)
    inline.fan_out()
    refs += emit_for(endpoint, 5)
    inline.fan_out()
    rows = Delivery.objects.order_by("position").select_related("event")
    assert [row.event.public_id for row in rows] == [ref.id for ref in refs]
    assert len({row.position for row in rows}) == 25


def test_three_scopes_see_an_event():
    partner = PartnerFactory()
    tenant = TenantFactory(partner=partner)
    mine = EndpointFactory(tenant_id=tenant.pk)
    of_partner = EndpointFactory(tenant_id=None, partner_id=partner.pk)
    platform = EndpointFactory(tenant_id=None)
    EndpointFactory(tenant_id=TenantFactory(partner=partner).pk)
    EndpointFactory(tenant_id=None, partner_id=PartnerFactory().pk)
    EndpointFactory(tenant_id=partner.pk)
    emit_for(tenant.pk)
    inline.fan_out()
    assert receivers() == set(keys_of([mine, of_partner, platform]))
    assert Event.objects.get().partner_id == partner.pk


def test_an_event_without_tenant_goes_to_the_platform_only():
    EndpointFactory()
    EndpointFactory(tenant_id=None, partner_id="p")
    EndpointFactory(tenant_id="")
    platform = EndpointFactory(tenant_id=None)
    emit_for(None)
    inline.fan_out()
    assert receivers() == {platform.pk}


def test_an_unknown_tenant_has_no_partner():
    EndpointFactory(tenant_id=None, partner_id=PartnerFactory().pk)
    mine = EndpointFactory(tenant_id="unheard of")
    emit_for("unheard of")
    inline.fan_out()
    assert receivers() == {mine.pk}
    assert Event.objects.get().partner_id is None


def test_tenants_are_told_apart_by_every_character():
    EndpointFactory(tenant_id="Acme")
    EndpointFactory(tenant_id="acme ")
    mine = EndpointFactory(tenant_id="acme")
    emit_for("acme")
    inline.fan_out()
    assert receivers() == {mine.pk}


@pytest.mark.parametrize("environment", ["live", "test"])
def test_environments_do_not_mix(environment: str):
    endpoints = {name: EndpointFactory(tenant_id="acme", environment=name) for name in ("live", "test")}
    emit_for("acme", environment=environment)
    inline.fan_out()
    assert receivers() == {endpoints[environment].pk}


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [(["*"], True), (["order.paid"], True), (["order.*"], True), ([], False), (["order"], False)],
)
def test_patterns(patterns: list[str], wanted: bool):
    """B143"""
    endpoint = EndpointFactory(events=patterns)
    emit_for(endpoint)
    inline.fan_out()
    assert bool(receivers()) is wanted


@pytest.mark.parametrize(
    ("filter_", "identity", "wanted"),
    [
        (None, None, True),
        (None, "shop", True),
        (["shop"], "shop", True),
        (["shop"], "other", False),
        (["shop"], None, False),
        ([], "shop", False),
        ([], None, False),
    ],
)
def test_identity_filters(filter_: list[str] | None, identity: str | None, wanted: bool):
    """B148"""
    endpoint = EndpointFactory(identity_ids=filter_)
    emit_for(endpoint, identity=identity)
    inline.fan_out()
    assert bool(receivers()) is wanted


def test_disabled_and_deleted_endpoints_get_nothing_paused_ones_do():
    EndpointFactory(tenant_id="acme", state__enabled=False)
    EndpointFactory(tenant_id="acme", deleted_at=timezone.now())
    paused = EndpointFactory(tenant_id="acme", state__paused_at=timezone.now())
    emit_for("acme")
    inline.fan_out()
    assert receivers() == {paused.pk}


def test_an_endpoint_made_before_the_commit_gets_the_event():
    """A new endpoint misses nothing that commits after it: there is no cache in between."""
    emit_for("acme")
    inline.fan_out()
    with transaction.atomic():
        emit("order.paid", {}, tenant="acme")
        late = EndpointFactory(tenant_id="acme")
    inline.fan_out()
    assert list(Delivery.objects.values_list("endpoint_id", flat=True)) == [late.pk]


def test_a_second_fan_out_makes_nothing_twice():
    endpoint = EndpointFactory()
    emit_for(endpoint, 3)
    inline.fan_out()
    OutboxEntry.objects.update(dispatched_at=None)
    inline.fan_out()
    assert (Event.objects.count(), Delivery.objects.count()) == (3, 3)
    assert not has_waiting(ALIAS)


def test_a_lower_key_that_commits_later_is_not_missed():
    """B040"""
    endpoint = EndpointFactory()
    emit_for(endpoint, 3)
    late = OutboxEntry.objects.order_by("pk").first()
    OutboxEntry.objects.filter(pk=late.pk).update(dispatched_at=timezone.now())
    inline.fan_out()
    OutboxEntry.objects.filter(pk=late.pk).update(dispatched_at=None)
    inline.fan_out()
    assert Delivery.objects.count() == 3


def test_a_batch_ends_at_its_number_of_events(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 4)
    endpoint = EndpointFactory()
    emit_for(endpoint, 10)
    batches = [fan_out_batch(ALIAS, ALIAS) for _ in range(3)]
    assert [(batch.events, batch.more) for batch in batches] == [(4, True), (4, True), (2, False)]
    assert Delivery.objects.count() == 10


def small_batches(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(fan_out, "plan", lambda items, found: plan.plan(items, found, size))


def test_a_batch_ends_at_its_number_of_deliveries(monkeypatch: pytest.MonkeyPatch):
    """The event that does not fit is cut, and goes on with the next batch."""
    small_batches(monkeypatch, 5)
    endpoints = EndpointFactory.create_batch(2, tenant_id="acme")
    refs = emit_for("acme", 6)
    batches = [fan_out_batch(ALIAS, ALIAS) for _ in range(3)]
    assert [(batch.events, batch.more) for batch in batches] == [(3, True), (3, True), (1, False)]
    for endpoint in endpoints:
        rows = Delivery.objects.filter(endpoint=endpoint).order_by("position").select_related("event")
        assert [row.event.public_id for row in rows] == [ref.id for ref in refs]


def test_an_event_with_more_endpoints_than_a_batch_is_cut_and_goes_on(monkeypatch: pytest.MonkeyPatch):
    small_batches(monkeypatch, 3)
    endpoints = EndpointFactory.create_batch(8, tenant_id="acme")
    emit_for("acme", 2)
    first = fan_out_batch(ALIAS, ALIAS)
    assert first.more
    assert receivers() == set(keys_of(endpoints[:3]))
    assert Event.objects.get().fanned_out_at is None
    assert OutboxEntry.objects.filter(dispatched_at__isnull=False).count() == 0
    assert has_waiting(ALIAS)
    second = fan_out_batch(ALIAS, ALIAS)
    assert second.endpoint_ids == set(keys_of(endpoints[3:6]))
    inline.fan_out()
    assert Delivery.objects.count() == 16
    assert Event.objects.filter(fanned_out_at__isnull=True).count() == 0
    assert not has_waiting(ALIAS)


def test_a_cut_event_goes_on_behind_an_endpoint_that_vanished(monkeypatch: pytest.MonkeyPatch):
    small_batches(monkeypatch, 3)
    endpoints = EndpointFactory.create_batch(5, tenant_id="acme")
    emit_for("acme")
    fan_out_batch(ALIAS, ALIAS)
    Endpoint.objects.filter(pk__in=[endpoints[2].pk, endpoints[3].pk]).update(deleted_at=timezone.now())
    inline.fan_out()
    assert receivers() == set(keys_of([*endpoints[:3], endpoints[4]]))


def test_the_limits_are_five_hundred_events_and_five_thousand_deliveries():
    assert (fan_out.MAX_EVENTS, plan.MAX_DELIVERIES) == (500, 5_000)


@pytest.mark.parametrize("kind", ["webhook.test", "webhook.ping"])
def test_tests_and_pings_are_never_fanned_out(kind: str):
    endpoint = EndpointFactory()
    emit_for(endpoint)
    OutboxEntry.objects.update(type=kind)
    inline.fan_out()
    assert not receivers()
    assert Event.objects.get().fanned_out_at is not None


class Host:
    """A host's own tenancy."""

    def partner_of(self, tenant_id: str) -> str | None:
        return "house" if tenant_id.startswith("h-") else None

    def is_suspended(self, tenant_id: str | None, partner_id: str | None) -> bool:
        return tenant_id == "h-bad"

    def retention_days(self, tenant_id: str) -> int | None:
        return 3 if tenant_id == "h-short" else None


def test_the_hosts_class_says_who_owns_a_tenant(configure: Callable[..., None]):
    configure(TENANCY="tests.pipeline.test_fan_out.Host")
    TenantFactory(id="h-1", partner=PartnerFactory(id="table"))
    house = EndpointFactory(tenant_id=None, partner_id="house")
    EndpointFactory(tenant_id=None, partner_id="table")
    emit_for("h-1")
    emit_for("other")
    inline.fan_out()
    assert list(Delivery.objects.values_list("endpoint_id", flat=True)) == [house.pk]


@committed
@pytest.mark.pg
def test_two_at_once_make_nothing_twice_and_lose_nothing():
    endpoints = EndpointFactory.create_batch(3, tenant_id="acme")
    for _ in range(30):
        emit_for("acme", 5)

    def run() -> int:
        done = 0
        while has_waiting(ALIAS):
            done += fan_out_batch(ALIAS, ALIAS).events
        return done

    assert sum(in_threads(run, run, run)) == 150
    assert Delivery.objects.count() == 150 * len(endpoints)
    assert len(set(Delivery.objects.values_list("position", flat=True))) == 450


@committed
@pytest.mark.pg
def test_who_finds_the_lock_taken_goes_home_at_once():
    inline.fan_out()  # makes the lock rows
    emit_for("acme")
    with transaction.atomic():
        assert fan_out_batch(ALIAS, ALIAS).locked
        (rival,) = in_threads(lambda: fan_out_batch(ALIAS, ALIAS), seconds=5)
    assert not rival.locked
    assert not fan_out_own(ALIAS).events
