"""Fan-out gives each delivery its lane, its priority and the start of its schedule."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.core.ordering import lane_of
from webhooks_app.models import Delivery, Endpoint, Event
from webhooks_app.pipeline import fan_out, inline, spread

from .factories import EndpointFactory, emit_for

pytestmark = pytest.mark.django_db

ORDER = ("order", "7")


def rows_of(endpoint: Endpoint) -> list[tuple[str | None, int]]:
    """Return lane and priority of an endpoint's deliveries by position."""
    rows = Delivery.objects.filter(endpoint=endpoint).order_by("position")
    return list(rows.values_list("lane", "priority"))


@pytest.mark.parametrize(
    ("ordering", "owner", "lane"),
    [
        ("none", ORDER, None),
        ("none", None, None),
        ("fifo", ORDER, ""),
        ("fifo", None, ""),
        ("subject", ORDER, lane_of("subject", tenant_id="acme", owner_kind="order", owner_id="7")),
        ("subject", None, None),
    ],
)
def test_the_lane_of_a_delivery(ordering: str, owner: tuple[str, str] | None, lane: str | None):
    endpoint = EndpointFactory(tenant_id="acme", ordering=ordering)
    emit_for(endpoint, owner=owner)
    inline.fan_out()
    priority = Delivery.Priority.LIVE if lane is None else Delivery.Priority.ORDERED
    assert rows_of(endpoint) == [(lane, priority)]
    row = Delivery.objects.get()
    assert (row.state, row.due_at) == ("pending", row.created_at)


def test_one_event_at_endpoints_of_every_ordering():
    owner = {"tenant_id": "acme", "owner_kind": "order", "owner_id": "7"}
    endpoints = {
        ordering: EndpointFactory.create_batch(2, tenant_id="acme", ordering=ordering)
        for ordering in ("none", "fifo", "subject")
    }
    emit_for("acme", owner=ORDER)
    inline.fan_out()
    for ordering, pair in endpoints.items():
        lane = lane_of(ordering, **owner)
        assert [rows_of(endpoint) for endpoint in pair] == [[(lane, 0 if lane is None else 3)]] * 2


def test_owners_of_different_tenants_have_different_lanes():
    platform = EndpointFactory(tenant_id=None, ordering="subject")
    for tenant in ("a", "b", None):
        emit_for(tenant, 2, owner=ORDER)
    inline.fan_out()
    lanes = [lane for lane, _ in rows_of(platform)]
    assert lanes[::2] == lanes[1::2]
    assert len(set(lanes)) == 3


def test_fifo_is_the_order_of_the_outbox():
    endpoint = EndpointFactory(tenant_id=None, ordering="fifo")
    refs = [ref for _ in range(5) for tenant in ("b", None, "a") for ref in emit_for(tenant, 2)]
    inline.fan_out()
    rows = Delivery.objects.filter(endpoint=endpoint).order_by("position").select_related("event")
    assert [row.event.public_id for row in rows] == [ref.id for ref in refs]


def test_fifo_keeps_its_order_over_small_batches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 3)
    endpoint = EndpointFactory(tenant_id="a", ordering="fifo")
    refs = []
    for _ in range(5):
        refs += emit_for("a", 2)
        emit_for("b", 2)
    inline.fan_out()
    rows = Delivery.objects.filter(endpoint=endpoint).order_by("position").select_related("event")
    assert [row.event.public_id for row in rows] == [ref.id for ref in refs]


def test_a_change_of_ordering_acts_with_the_next_batch():
    endpoint = EndpointFactory()
    for ordering in ("none", "fifo", "none"):
        Endpoint.objects.filter(pk=endpoint.pk).update(ordering=ordering)
        emit_for(endpoint)
        inline.fan_out()
    assert rows_of(endpoint) == [(None, 0), ("", 3), (None, 0)]


@pytest.mark.parametrize(("ordering", "expected"), [("fifo", ("", 3)), ("subject", (None, 0))])
def test_events_of_the_sender_itself(ordering: str, expected: tuple[str | None, int]):
    endpoint = EndpointFactory(tenant_id=None, ordering=ordering)
    moment = timezone.now() - timedelta(minutes=5)
    Event.objects.create(
        public_id="evt_own",
        type="webhook.disabled",
        environment="live",
        occurred_at=moment - timedelta(minutes=5),
        recorded_at=moment,
        body=b"{}",
        about_endpoint_id=EndpointFactory().pk,
    )
    inline.fan_out()
    assert rows_of(endpoint) == [expected]
    row = Delivery.objects.get(endpoint=endpoint)
    assert (row.occurred_at, row.started_at) == (moment - timedelta(minutes=5), moment)


@pytest.mark.django_db(databases=["default", "second"])
@pytest.mark.parametrize("outbox", ["default", "second"])
def test_the_schedule_starts_with_the_recording(outbox: str, configure: Callable[..., None]):
    configure(OUTBOX_DATABASES=["default", "second"])
    endpoint = EndpointFactory()
    emit_for(endpoint, using=outbox, occurred_at=timezone.now() - timedelta(days=2))
    inline.fan_out()
    row = Delivery.objects.select_related("event").get()
    assert row.started_at == row.event.recorded_at
    assert row.started_at > row.occurred_at + timedelta(days=1)


def test_rows_go_in_by_parts(monkeypatch: pytest.MonkeyPatch):
    """A batch may hold more rows than a statement has parameters for."""
    assert spread.ROWS * (len(spread._DELIVERY)) + 2 < 32_766
    monkeypatch.setattr(spread, "ROWS", 4)
    endpoints = EndpointFactory.create_batch(3, tenant_id="acme", ordering="fifo")
    emit_for("acme", 5)
    inline.fan_out()
    assert all(rows_of(endpoint) == [("", 3)] * 5 for endpoint in endpoints)
    assert len(set(Delivery.objects.values_list("position", flat=True))) == 15


def test_a_cut_event_keeps_its_lanes(monkeypatch: pytest.MonkeyPatch):
    real: Any = fan_out.plan
    monkeypatch.setattr(fan_out, "plan", lambda items, found: real(items, found, 2))
    endpoints = EndpointFactory.create_batch(5, tenant_id="acme", ordering="subject")
    emit_for("acme", 2, owner=ORDER)
    inline.fan_out()
    lane = lane_of("subject", tenant_id="acme", owner_kind="order", owner_id="7")
    assert all(rows_of(endpoint) == [(lane, 3)] * 2 for endpoint in endpoints)
