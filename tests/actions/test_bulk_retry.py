"""Bulk retry: what the filters select begins anew, and nothing of anybody else's."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event, partner, tenant
from tests.actions.jobs import counts, finished
from webhooks_app.actions import jobs
from webhooks_app.actions.bulk_retry import STATUSES, bulk_retry
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.core.states import (
    CANCELLED,
    DEAD,
    DEAD_LETTERED,
    DELIVERED,
    EXHAUSTED,
    FAILED_PERMANENT,
    PENDING,
)
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, Endpoint, Event, OutboxEntry, Partner, Tenant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def dead(endpoint: Endpoint, event: Event | None = None, **values) -> Delivery:
    return make_delivery(
        endpoint, event, **{"state": EXHAUSTED, "attempts": 13, "last_error": "timeout", **values}
    )


def test_without_filters_all_that_died_begins_anew():
    row, other = make_endpoint(), make_endpoint()
    old = [dead(row, step=12), dead(other, state=FAILED_PERMANENT, last_error="status_4xx")]
    left = [
        make_delivery(row, state=DELIVERED),
        dead(row, state=CANCELLED),
        dead(row, first_delivered_at=timezone.now()),
        make_delivery(row, attempts=2, last_error="timeout", due_at=timezone.now() + DAY),
    ]
    before = list(Delivery.objects.filter(pk__in=[each.pk for each in left]).order_by("pk").values())
    assert counts(finished(bulk_retry(tenant()))) == ("succeeded", 2, 2, 0)
    for each in old:
        each.refresh_from_db()
        assert (each.state, each.step, each.priority) == (PENDING, 0, Delivery.Priority.BULK)
    assert list(Delivery.objects.filter(pk__in=[each.pk for each in left]).order_by("pk").values()) == before


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"status": "dead"}, {"exhausted", "permanent", "cancelled", "invoice"}),
        ({"status": "exhausted"}, {"exhausted", "invoice", "again"}),
        ({"status": "cancelled"}, {"cancelled"}),
        ({"status": "failed"}, {"failed"}),
        ({"error": "status_4xx"}, {"permanent"}),
        ({"event_type": "invoice.sent"}, {"invoice"}),
        ({"event_type": "invoice.sent", "error": "dns"}, set()),
    ],
)
def test_each_filter_selects(filters, names):
    row = make_endpoint()
    rows = {
        "exhausted": dead(row),
        "permanent": dead(row, state=FAILED_PERMANENT, last_error="status_4xx"),
        "cancelled": dead(row, state=CANCELLED),
        "invoice": dead(row, make_event(type="invoice.sent")),
        "again": dead(row, first_delivered_at=timezone.now()),
        "failed": make_delivery(row, attempts=2, last_error="timeout", due_at=timezone.now() + DAY),
        "new": make_delivery(row),
        "delivered": make_delivery(row, state=DELIVERED),
    }
    before = dict(Delivery.objects.values_list("pk", "due_at"))
    assert counts(finished(bulk_retry(OPERATOR, **filters))) == ("succeeded", len(names), len(names), 0)
    changed = {pk for pk, due_at in Delivery.objects.values_list("pk", "due_at") if due_at != before[pk]}
    assert changed == {rows[name].pk for name in names}


def test_an_open_delivery_begins_anew_behind_the_live_traffic():
    row = make_delivery(
        make_endpoint(), attempts=4, step=4, last_error="dns", due_at=timezone.now() + DAY, priority=1
    )
    finished(bulk_retry(OPERATOR, status="failed"))
    row.refresh_from_db()
    assert (row.step, row.attempts, row.priority) == (0, 4, Delivery.Priority.BULK)
    assert row.due_at <= timezone.now()


def test_the_window_is_of_occurred_at():
    row = make_endpoint()
    old, inside, end = (dead(row, make_event(age=n * timedelta(hours=1))) for n in (30, 20, 10))
    job = bulk_retry(OPERATOR, since=inside.occurred_at, until=end.occurred_at)
    assert counts(finished(job)) == ("succeeded", 1, 1, 0)
    assert Delivery.objects.get(state=PENDING).pk == inside.pk
    assert old.state == EXHAUSTED


def test_scopes_hold_at_the_time_of_the_work():
    umbrella = Partner.objects.create(id="umbrella")
    Tenant.objects.create(id="acme", partner=umbrella)
    mine, partners, theirs = (
        make_endpoint(),
        make_endpoint(partner_id="umbrella"),
        make_endpoint(tenant_id="x"),
    )
    for each in (mine, partners, theirs):
        dead(each, make_event(tenant_id=each.tenant_id, partner_id=each.partner_id))
    one, two, three = bulk_retry(tenant()), bulk_retry(partner()), bulk_retry(OPERATOR)
    assert [job.total for job in (one, two, three)] == [1, 2, 3]
    assert counts(finished(one)) == ("succeeded", 1, 1, 0)
    assert [counts(finished(job))[2] for job in (two, three)] == [1, 1]


def test_one_endpoint_of_several():
    row, other = make_endpoint(), make_endpoint()
    dead(row), dead(other)
    job = bulk_retry(tenant(), endpoint=row)
    assert (job.endpoint_id, job.tenant_id) == (row.pk, "acme")
    assert counts(finished(job)) == ("succeeded", 1, 1, 0)
    assert Delivery.objects.get(state=PENDING).endpoint_id == row.pk


def test_a_job_whose_endpoint_is_gone_does_not_turn_to_all_the_others():
    row, other = make_endpoint(), make_endpoint()
    dead(row), dead(other)
    job, again = bulk_retry(OPERATOR, endpoint=row), bulk_retry(OPERATOR, endpoint=row)
    delete_endpoint(OPERATOR, row)
    assert counts(finished(job)) == ("succeeded", 1, 0, 1)
    Endpoint.objects.filter(pk=row.pk).delete()
    assert counts(finished(again)) == ("succeeded", 1, 0, 1)
    assert not Delivery.objects.filter(state=PENDING).exists()


def test_disabled_endpoints_and_what_they_would_not_be_given_are_skipped():
    Tenant.objects.create(id="short", retention_days=1)
    row, off = make_endpoint(events=["order.*"]), make_endpoint()
    dead(row)
    dead(row, make_event(type="invoice.sent"))
    dead(row, make_event(age=31 * DAY))
    dead(row, make_event(expires_at=timezone.now() - DAY))
    dead(row, **leased())
    dead(off)
    disable(OPERATOR, off)
    assert counts(finished(bulk_retry(OPERATOR))) == ("succeeded", 6, 1, 5)


def test_a_disabled_endpoint_that_is_named_is_refused_and_one_disabled_meanwhile_fails_the_job():
    row = make_endpoint()
    old = dead(row)
    job = bulk_retry(OPERATOR, endpoint=row)
    disable(OPERATOR, row)
    assert counts(finished(job)) == ("failed", 1, 0, 0)
    assert job.error == "webhook_disabled"
    with pytest.raises(Conflict) as caught:
        bulk_retry(OPERATOR, endpoint=row)
    assert caught.value.code == "webhook_disabled"
    old.refresh_from_db()
    assert old.state == EXHAUSTED


def test_what_was_erased_is_skipped():
    dead(make_endpoint(), state=DEAD_LETTERED, last_error="event_unavailable")
    OutboxEntry.objects.all().delete()
    Event.objects.update(outbox_id=None, outbox_alias=None)
    assert counts(finished(bulk_retry(OPERATOR))) == ("succeeded", 1, 0, 1)


def test_lanes_are_kept():
    row = make_endpoint()
    Endpoint.objects.filter(pk=row.pk).update(ordering="fifo")
    rows = [dead(row) for _ in range(3)]
    finished(bulk_retry(OPERATOR))
    assert list(Delivery.objects.order_by("position").values_list("pk", flat=True)) == [r.pk for r in rows]
    assert set(Delivery.objects.values_list("lane", "priority")) == {("", Delivery.Priority.ORDERED)}


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"status": "delivered"}, "status"),
        ({"status": "pending"}, "status"),
        ({"error": "lost"}, "error"),
        ({"event_type": "order paid"}, "event_type"),
        ({"event_type": 7}, "event_type"),
        ({"since": "yesterday"}, "since"),
        ({"since": timezone.now(), "until": timezone.now() - DAY}, "until"),
    ],
)
def test_refused_requests(values, path):
    with pytest.raises(InvalidRequest) as caught:
        bulk_retry(OPERATOR, **values)
    assert [each for each, _ in caught.value.errors] == [path]


def test_every_dead_state_is_a_status():
    assert set(STATUSES) == {"dead", "failed", *DEAD}


def test_more_than_a_million_is_refused(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_TOTAL", 1)
    row = make_endpoint()
    dead(row), dead(row)
    with pytest.raises(InvalidRequest, match="choose less"):
        bulk_retry(OPERATOR)


def test_who_may_and_the_audit():
    row = make_endpoint()
    dead(row)
    with pytest.raises(NotFound):
        bulk_retry(tenant("other"), endpoint=row)
    with pytest.raises(PermissionDenied):
        bulk_retry(tenant(permissions=frozenset({"webhooks:read"})))
    assert bulk_retry(tenant("other")).total == 0
    job = bulk_retry(tenant())
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.target_type, entry.target_id) == (
        "deliveries.retry_begun",
        "job",
        job.public_id,
    )
    assert (entry.tenant_id, entry.details) == ("acme", {"job": job.public_id, "total": 1})
