"""Every hot statement of the path uses an index, however many rows there are."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.plans import BIG, explained
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.ops.doctor.flow import check_outbox
from webhooks_app.pipeline import fan_out, inline, tick
from webhooks_app.pipeline.dispatch import has_waiting
from webhooks_app.pipeline.index import look

from .driving import ALIAS, claim, run_path, waiting
from .factories import EndpointFactory, emit_for
from .receiver import Receiver, reply

pytestmark = [pytest.mark.django_db, pytest.mark.pg, pytest.mark.usefixtures("tables_as_new")]

EVENTS, PER_EVENT = 6_000, 3
ROWS = """
INSERT INTO webhooks_app_event (public_id, type, tenant_id, environment, occurred_at, recorded_at,
  outbox_alias, outbox_id, fanned_out_at, fan_out_cursor)
SELECT 'evt_old' || n, 'order.paid', 'tenant-' || n %% 500, 'live', now(), now(), 'default', n, now(), 0
FROM generate_series(1, {events}) n;
INSERT INTO webhooks_app_outboxentry (event_id, type, tenant_id, environment, body, occurred_at, recorded_at,
  dispatched_at, failures)
SELECT 'evt_old' || n, 'order.paid', 'tenant-' || n %% 500, 'live', '{{}}', now(), now(), now(), 0
FROM generate_series(1, {events}) n;
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, due_at, attempts, step, deferrals,
  lapses, position, last_error, occurred_at, created_at, finished_at)
SELECT (%s::bigint[])[1 + (e.id + n) %% {endpoints}], e.id,
  CASE WHEN n = 0 THEN 'pending' ELSE 'delivered' END, n %% 3,
  CASE WHEN n = 0 THEN now() + interval '1 day' END, 1, 0, 0, 0, e.id, '', now(), now(), now()
FROM webhooks_app_event e, generate_series(0, {each}) n;
INSERT INTO webhooks_app_attempt (id, delivery_id, endpoint_id, event_id, event_type, number, trigger, status,
  error, detail, duration_ms, url, signature, reply_headers, reply_body, created_at)
SELECT gen_random_uuid(), d.id, d.endpoint_id, 'evt', 'order.paid', 1, 'schedule', 'succeeded', '', '', 5,
  'https://x', '', '[]', '', now() FROM webhooks_app_delivery d
  WHERE d.event_id %% 3 = 0;
"""


@pytest.fixture
def crowd() -> list[Endpoint]:
    """Fill the tables: 6,000 events, 18,000 deliveries at 50 endpoints, a third of them open but not due."""
    endpoints = EndpointFactory.create_batch(50)
    sql = ROWS.format(events=EVENTS, endpoints=len(endpoints), each=PER_EVENT - 1)
    with connection.cursor() as cursor:
        cursor.execute(sql, [[endpoint.pk for endpoint in endpoints]])
        cursor.execute("ANALYZE " + ", ".join([*sorted(BIG), "webhooks_app_endpointstate"]))
    return endpoints


def test_the_fan_out(crowd: list[Endpoint]):
    emit_for(crowd[0], 5)
    with explained() as plans:
        inline.fan_out()
    plans.check()
    assert {"webhooks_outbox_by_tenant", "webhooks_event_unfanned"} <= plans.indexes()


def test_the_fan_out_in_turns(crowd: list[Endpoint], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 5)
    for tenant in (*(endpoint.tenant_id for endpoint in crowd[:4]), None):
        emit_for(tenant, 4)
    with explained() as plans:
        inline.fan_out()
    plans.check()
    assert any("RECURSIVE" in sql for sql, _ in plans.statements)
    assert any("LATERAL" in sql for sql, _ in plans.statements)
    assert "webhooks_app_outboxentry_pkey" not in plans.indexes_read()


@pytest.mark.parametrize("tenants", ["tenant_id", "'the only one'"])
def test_statistics_of_a_backlog_that_is_gone(
    tenants: str, crowd: list[Endpoint], monkeypatch: pytest.MonkeyPatch
):
    """Who believes that everything waits looks for it in the order of keys, and walks what was dispatched."""
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE webhooks_app_outboxentry SET dispatched_at = NULL, tenant_id = {tenants}")
        cursor.execute("ANALYZE webhooks_app_outboxentry")
        cursor.execute("UPDATE webhooks_app_outboxentry SET dispatched_at = now()")
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 5)
    for tenant in (crowd[0].tenant_id, "the only one", None):
        emit_for(tenant, 4)
    with explained() as plans:
        assert has_waiting(ALIAS)
        assert look(ALIAS) == (True, False)
        inline.fan_out()
    plans.check()
    assert "webhooks_app_outboxentry_pkey" not in plans.indexes_read()


def test_what_waits_is_counted_and_listed_by_its_index(crowd: list[Endpoint]):
    emit_for(crowd[0], 3)
    with explained() as plans:
        (finding, *_) = check_outbox()
        rows = OutboxEntry.objects.filter(dispatched_at__isnull=True, set_aside_at__isnull=True)
        assert len(rows.order_by("-pk")[:50]) == 3
    assert "0 s ago" in finding.message
    plans.check()
    assert plans.indexes() == {"webhooks_outbox_by_tenant"}


def test_the_lease(crowd: list[Endpoint]):
    for endpoint in (crowd[0], crowd[10], crowd[30]):
        waiting(endpoint, 5)
    for endpoints in (crowd[:1], crowd[1:20], crowd[20:]):
        with explained() as plans:
            assert claim(*endpoints).jobs
        plans.check()
        assert {"webhooks_delivery_due", "webhooks_delivery_leased"} <= plans.indexes()


def test_the_end_of_an_endpoint(crowd: list[Endpoint]):
    waiting(crowd[0], 5)
    crowd[0].state.enabled = False
    crowd[0].state.save()
    with explained() as plans:
        assert len(claim(*crowd[:20]).ended) == 5
    plans.check()


def test_the_record(crowd: list[Endpoint], receiver: Receiver):
    waiting(crowd[0], 40)
    receiver.script(crowd[0], *[reply(500)] * 20)
    with explained() as plans:
        run_path()
    assert len(receiver.requests) == 40
    plans.check()


def test_the_tick(crowd: list[Endpoint]):
    waiting(crowd[0], 2)
    Delivery.objects.filter(endpoint=crowd[1], state="pending").update(
        due_at=timezone.now() + timedelta(seconds=3)
    )
    with explained() as plans:
        found = tick.look(ALIAS)
    assert found.due == [crowd[0].pk]
    assert list(found.soon) == [crowd[1].pk]
    plans.check()
    assert "webhooks_delivery_due" in plans.indexes()


def test_the_lists_that_people_look_at(crowd: list[Endpoint]):
    """B129: an endpoint's deliveries and attempts, a delivery's attempts, an event by its id."""
    endpoint, delivery = crowd[0], Delivery.objects.order_by("pk").first()
    with explained() as plans:
        list(Attempt.objects.filter(endpoint=endpoint).order_by("-pk")[:25])
        list(Attempt.objects.filter(delivery=delivery).order_by("number"))
        list(Delivery.objects.filter(endpoint=endpoint, state="pending", priority=0).order_by("due_at")[:25])
        list(Delivery.objects.filter(event_id=delivery.event_id))
        list(Event.objects.filter(public_id="evt_old77"))
        list(Event.objects.filter(tenant_id="tenant-7").order_by("-occurred_at")[:25])
        list(OutboxEntry.objects.filter(event_id="evt_old77"))
    plans.check()
