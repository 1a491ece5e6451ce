"""Recover: what an endpoint lacks becomes due again, and nothing else."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event, partner, tenant
from tests.actions.jobs import counts, finished
from webhooks_app.actions import jobs
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.recover import recover, replay_from_earliest
from webhooks_app.core.states import (
    CANCELLED,
    DEAD_LETTERED,
    DELIVERED,
    EXHAUSTED,
    EXPIRED,
    FAILED_PERMANENT,
    PENDING,
    WINDOW_EXCEEDED,
)
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, Endpoint, Event, OutboxEntry, Tenant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def old_endpoint(**values) -> Endpoint:
    """An endpoint that was there before the events of these tests."""
    row = make_endpoint(**values)
    Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 20 * DAY)
    return row


def lately(endpoint: Endpoint, actor=OPERATOR, **values):
    return recover(actor, endpoint, **{"since": timezone.now() - 2 * DAY, **values})


@pytest.mark.parametrize("state", [EXHAUSTED, FAILED_PERMANENT, DEAD_LETTERED, WINDOW_EXCEEDED, EXPIRED])
def test_a_dead_delivery_begins_anew(state):
    row = old_endpoint()
    old = make_delivery(row, state=state, attempts=13, step=12, deferrals=2, last_error="timeout")
    job = finished(lately(row, tenant()))
    assert counts(job) == ("succeeded", 1, 1, 0)
    old.refresh_from_db()
    assert (old.state, old.step, old.deferrals, old.attempts) == (PENDING, 0, 0, 13)
    assert old.priority == Delivery.Priority.BULK
    assert old.started_at == old.due_at <= timezone.now()


def test_what_was_delivered_cancelled_or_is_open_is_left_alone():
    row = old_endpoint()
    make_delivery(row, state=DELIVERED)
    make_delivery(row, state=CANCELLED)
    make_delivery(row, state=EXHAUSTED, first_delivered_at=timezone.now())
    make_delivery(row, attempts=3, last_error="timeout", due_at=timezone.now() + DAY)
    make_delivery(make_endpoint(tenant_id="other"), state=EXHAUSTED)
    before = list(Delivery.objects.order_by("pk").values())
    assert counts(finished(lately(row))) == ("succeeded", 0, 0, 0)
    assert list(Delivery.objects.order_by("pk").values()) == before


def test_a_delivery_that_is_being_resent_is_skipped():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED, **leased())
    make_delivery(row, state=EXHAUSTED)
    assert counts(finished(lately(row))) == ("succeeded", 2, 1, 1)


def test_events_from_while_it_was_disabled_get_their_first_delivery():
    row = old_endpoint()
    missed = make_event(expires_at=timezone.now() + DAY)
    make_event(fanned_out_at=None)
    job = finished(lately(row))
    assert counts(job) == ("succeeded", 1, 1, 0)
    made = Delivery.objects.get()
    assert (made.event_id, made.state, made.priority) == (missed.pk, PENDING, Delivery.Priority.BULK)
    assert (made.occurred_at, made.expires_at) == (missed.occurred_at, missed.expires_at)


def test_dead_and_missed_ones_come_in_the_order_of_the_events():
    row = old_endpoint()
    Endpoint.objects.filter(pk=row.pk).update(ordering="fifo")
    events = [make_event() for _ in range(4)]
    for event in (events[2], events[0]):
        make_delivery(row, event, state=EXHAUSTED)
    finished(lately(row))
    assert list(Delivery.objects.order_by("position").values_list("event_id", flat=True)) == [
        event.pk for event in events
    ]
    assert set(Delivery.objects.values_list("lane", "priority")) == {("", Delivery.Priority.ORDERED)}


def test_since_decides_also_about_events_from_before_the_endpoint():
    make_event(), make_event(age=29 * DAY)
    row, other = make_endpoint(), make_endpoint()
    assert counts(finished(lately(row))) == ("succeeded", 1, 1, 0)
    assert counts(finished(lately(row, since=timezone.now() - 30 * DAY))) == ("succeeded", 1, 1, 0)
    assert counts(finished(replay_from_earliest(OPERATOR, other))) == ("succeeded", 2, 2, 0)


def test_the_window_is_of_occurred_at():
    row = old_endpoint()
    old, inside, end = (make_event(age=hours * timedelta(hours=1)) for hours in (30, 20, 10))
    make_delivery(row, old, state=EXHAUSTED)
    job = recover(OPERATOR, row, since=inside.occurred_at, until=end.occurred_at)
    assert counts(finished(job)) == ("succeeded", 1, 1, 0)
    assert Delivery.objects.get(state=PENDING).event_id == inside.pk


@pytest.mark.parametrize("values", [{"age": 30.1 * DAY}, {"expires_at": timezone.now() - DAY}])
def test_what_is_too_old_never_leaves_again(values):
    row = old_endpoint()
    Endpoint.objects.update(created_at=timezone.now() - 90 * DAY)
    make_delivery(row, make_event(**values), state=EXHAUSTED)
    make_event(**values)
    assert counts(finished(lately(row, since=timezone.now() - 90 * DAY))) == ("succeeded", 0, 0, 0)
    assert not Delivery.objects.filter(state=PENDING).exists()


def test_a_tenants_shorter_retention_counts_for_the_platform_too():
    Tenant.objects.create(id="short", retention_days=1)
    row = old_endpoint(tenant_id=None)
    make_event(tenant_id="short", age=1.5 * DAY)
    make_event(tenant_id="long", age=1.5 * DAY)
    assert counts(finished(lately(row))) == ("succeeded", 2, 1, 1)


def test_scope_and_filters_hold():
    make_event(tenant_id="other")
    make_event(type="invoice.paid")
    make_event(environment="test")
    make_event(type="webhook.test")
    wanted = make_event(identity_id="a")
    row = old_endpoint(events=["order.*"], identity_ids=["a"])
    make_delivery(row, make_event(type="invoice.paid", identity_id="a"), state=EXHAUSTED)
    assert counts(finished(lately(row))) == ("succeeded", 1, 1, 0)
    assert Delivery.objects.get(state=PENDING).event_id == wanted.pk


def test_copies_come_back_only_where_they_died():
    row, other = old_endpoint(), old_endpoint()
    original = make_event()
    for each in (row, other):
        make_delivery(each, original, state=DELIVERED)
    copy = make_event(replay_of=original.pk)
    make_delivery(row, copy, state=EXHAUSTED)
    assert counts(finished(lately(other))) == ("succeeded", 0, 0, 0)
    assert counts(finished(lately(row))) == ("succeeded", 1, 1, 0)


def test_an_event_whose_body_was_erased_stays_away():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    OutboxEntry.objects.all().delete()
    Event.objects.update(outbox_id=None, outbox_alias=None)
    assert counts(finished(lately(row))) == ("succeeded", 0, 0, 0)


def test_a_disabled_endpoint_refuses_and_a_paused_one_holds():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    pause(OPERATOR, row)
    assert counts(finished(lately(row))) == ("succeeded", 1, 1, 0)
    disable(OPERATOR, row)
    with pytest.raises(Conflict) as caught:
        lately(row)
    assert caught.value.code == "webhook_disabled"


def test_an_endpoint_that_is_disabled_meanwhile_fails_the_job():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    job = lately(row)
    disable(OPERATOR, row)
    assert counts(finished(job)) == ("failed", 1, 0, 0)
    assert job.error == "webhook_disabled"
    enable(OPERATOR, row)
    assert counts(finished(lately(row))) == ("succeeded", 1, 1, 0)


def test_an_endpoint_that_is_deleted_meanwhile_is_skipped():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    job, another = lately(row), lately(row)
    delete_endpoint(OPERATOR, row)
    assert counts(finished(job)) == ("succeeded", 1, 0, 1)
    Endpoint.objects.filter(pk=row.pk).delete()
    another.refresh_from_db()
    assert counts(finished(another)) == ("succeeded", 1, 0, 1)


def test_the_second_press_does_not_double():
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    make_event()
    one, two = lately(row), lately(row)
    assert counts(finished(one)) == ("succeeded", 2, 2, 0)
    assert counts(finished(two)) == ("succeeded", 2, 0, 2)
    assert Delivery.objects.count() == 2


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"since": None}, "since"),
        ({"since": "yesterday"}, "since"),
        ({"since": timezone.now().replace(tzinfo=None)}, "since"),
        ({"since": timezone.now(), "until": timezone.now() - DAY}, "until"),
    ],
)
def test_refused_requests(values, path):
    with pytest.raises(InvalidRequest) as caught:
        recover(OPERATOR, make_endpoint(), **values)
    assert [each for each, _ in caught.value.errors] == [path]


def test_more_than_a_million_is_refused(monkeypatch):
    monkeypatch.setattr(jobs, "MAX_TOTAL", 2)
    row = old_endpoint()
    for _ in range(3):
        make_event()
    with pytest.raises(InvalidRequest, match="choose less"):
        lately(row)
    with pytest.raises(InvalidRequest) as caught:
        replay_from_earliest(OPERATOR, row)
    assert [path for path, _ in caught.value.errors] == ["from"]


def test_who_may():
    row = make_endpoint()
    with pytest.raises(NotFound):
        lately(row, tenant("other"))
    with pytest.raises(NotFound):
        lately(row, partner())
    with pytest.raises(PermissionDenied):
        lately(row, tenant(permissions=frozenset({"webhooks:read"})))


def test_it_is_audited_and_names_its_owner():
    row = old_endpoint()
    make_event()
    job = lately(row, tenant(request_id="req_1"))
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.target_id) == ("webhook.recovery_begun", row.public_id)
    assert entry.details == {"job": job.public_id, "total": 1}
    assert (job.tenant_id, job.partner_id, job.environment) == ("acme", None, "live")
    assert (job.actor_id, job.request_id) == ("key_1", "req_1")


def test_the_path_is_woken(rung):
    row = old_endpoint()
    make_delivery(row, state=EXHAUSTED)
    finished(lately(row))
    assert rung == [row.pk]
