"""Prune: what goes, what must stay, whose retention counts, and that it can stop and go on."""

from datetime import timedelta
from itertools import count

import pytest
from django.db import transaction
from django.utils import timezone

from tests.actions.builders import (
    OPERATOR,
    leased,
    make_attempt,
    make_delivery,
    make_endpoint,
    make_event,
    together,
)
from webhooks_app.actions import sweep as sweeping
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.prune import Pruned, prune
from webhooks_app.core.states import DELIVERED, EXHAUSTED, EXPIRED, PENDING
from webhooks_app.models import (
    Attempt,
    AuditEntry,
    Delivery,
    Endpoint,
    EndpointState,
    Event,
    OutboxEntry,
    Tenant,
)

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def ended(endpoint, *, event_age: float, end_age: float, **values) -> Delivery:
    """A delivery that ended so many days ago, of an event so many days old, with two attempts."""
    values = {"state": EXHAUSTED, "finished_at": timezone.now() - end_age * DAY, **values}
    row = make_delivery(endpoint, make_event(age=event_age * DAY, tenant_id=endpoint.tenant_id), **values)
    make_attempt(row, 1), make_attempt(row, 2)
    return row


def test_nothing_old_nothing_done():
    ended(make_endpoint(), event_age=29, end_age=29)
    before = AuditEntry.objects.count()
    assert prune() == Pruned()
    assert AuditEntry.objects.count() == before


def test_an_old_event_goes_with_everything_of_it():
    ended(make_endpoint(), event_age=33, end_age=31)
    assert prune() == Pruned(events=1, deliveries=1, attempts=2, outbox=1)
    for model in (Event, OutboxEntry, Delivery, Attempt):
        assert not model.objects.exists()


def test_it_is_audited_in_numbers():
    ended(make_endpoint(), event_age=33, end_age=31)
    prune()
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.actor_kind, entry.target_type) == (
        "retention.pruned",
        "system",
        "installation",
    )
    assert entry.details["deliveries"] == 1


def test_a_delivery_goes_by_its_end_and_the_payload_by_the_age_of_the_event():
    row = ended(make_endpoint(), event_age=33, end_age=1)
    Event.objects.update(body=b"{}")
    assert prune() == Pruned(outbox=1)
    assert Attempt.objects.filter(delivery=row).count() == 2
    event = Event.objects.get()
    assert (event.body, event.outbox_alias, event.outbox_id) == (None, None, None)
    assert prune() == Pruned()


def test_an_event_without_deliveries_goes_by_its_age():
    make_event(age=31 * DAY)
    kept = make_event(age=29 * DAY)
    assert prune() == Pruned(events=1, outbox=1)
    assert Event.objects.get() == kept


def test_undispatched_and_unfanned_rows_stay():
    make_event(age=40 * DAY, fanned_out_at=None)
    waiting = make_event(age=40 * DAY)
    OutboxEntry.objects.update(dispatched_at=None)
    assert prune() == Pruned()
    assert Event.objects.filter(pk=waiting.pk).exists()


def test_an_entry_that_is_not_marked_dispatched_yet_keeps_its_event():
    event = make_event(age=40 * DAY)
    OutboxEntry.objects.filter(pk=event.outbox_id).update(dispatched_at=None)
    prune()
    assert Event.objects.get().outbox_id == event.outbox_id


def test_an_open_delivery_past_the_retention_ends_first_and_its_event_later():
    row = make_delivery(make_endpoint(), make_event(age=31 * DAY), due_at=timezone.now() + DAY, attempts=3)
    assert prune() == Pruned(outbox=1)
    row.refresh_from_db()
    assert (row.state, row.last_error, row.due_at) == (EXPIRED, "event_unavailable", None)
    assert Event.objects.exists()
    assert prune(now=timezone.now() + 31 * DAY) == Pruned(events=1, deliveries=1)


def test_what_is_being_sent_keeps_its_event_and_body():
    row = make_delivery(make_endpoint(), make_event(age=31 * DAY), **leased())
    assert prune(now=timezone.now() + 5 * DAY) == Pruned()
    row.refresh_from_db()
    assert row.state == PENDING
    assert row.lease_token is not None


@pytest.mark.parametrize(("own", "gone"), [(5, True), (90, False), (None, False)])
def test_a_tenant_may_have_its_own_retention(own, gone):
    Tenant.objects.create(id="acme", retention_days=own)
    ended(make_endpoint(), event_age=20, end_age=10)
    other = ended(make_endpoint(tenant_id="other"), event_age=20, end_age=10)
    prune()
    assert Delivery.objects.filter(endpoint__tenant_id="acme").exists() != gone
    assert Event.objects.filter(tenant_id="acme").exists() != gone
    assert Delivery.objects.filter(pk=other.pk).exists()


def test_the_retention_is_that_of_the_events_tenant():
    Tenant.objects.create(id="acme", retention_days=5)
    platform = make_endpoint(tenant_id=None)
    gone = make_delivery(
        platform, make_event(age=20 * DAY), state=DELIVERED, finished_at=timezone.now() - 6 * DAY
    )
    prune()
    assert not Delivery.objects.filter(pk=gone.pk).exists()


def test_test_attempts_go_by_their_age():
    row = make_endpoint()
    old, young = make_attempt(make_delivery(row)), make_attempt(make_delivery(row), 2)
    Attempt.objects.update(delivery=None)
    long_ago = timezone.now() - 31 * DAY
    Attempt.objects.filter(pk=old.pk).update(
        id=f"{int(long_ago.timestamp() * 1000):012x}" + old.pk.hex[12:], created_at=long_ago
    )
    assert prune().attempts == 1
    assert Attempt.objects.get() == young


def test_a_deleted_endpoint_goes_when_nothing_is_left_of_it():
    empty, full, young = make_endpoint(), make_endpoint(), make_endpoint()
    ended(full, event_age=2, end_age=2)
    for row in (empty, full, young):
        delete_endpoint(OPERATOR, row)
    Endpoint.objects.exclude(pk=young.pk).update(deleted_at=timezone.now() - 2 * DAY)
    assert prune().endpoints == 1
    assert set(Endpoint.objects.all()) == {full, young}
    assert EndpointState.objects.count() == 2
    assert prune(now=timezone.now() + 40 * DAY).endpoints == 2


def test_what_a_delete_left_open_is_ended():
    row = make_endpoint()
    delete_endpoint(OPERATOR, row)
    left = make_delivery(row, due_at=timezone.now() + DAY)
    prune()
    left.refresh_from_db()
    assert (left.state, left.last_error) == ("dead_lettered", "endpoint_deleted")


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_the_size_of_the_batches_changes_nothing(batch):
    row = make_endpoint()
    for age in (50, 40, 35, 20, 10):
        ended(row, event_age=age, end_age=age - 1)
    make_event(age=33 * DAY, tenant_id=None)
    make_event(age=33 * DAY, tenant_id="zebra")
    assert prune(batch=batch) == Pruned(events=5, deliveries=3, attempts=6, outbox=5)


def test_it_stops_when_its_time_is_over_and_goes_on_next_time(monkeypatch):
    row = make_endpoint()
    for _ in range(5):
        ended(row, event_age=40, end_age=39)
    seconds = count()
    monkeypatch.setattr(sweeping.time, "monotonic", lambda: next(seconds))
    first = prune(batch=1, max_seconds=3)
    assert not first.finished
    assert 0 < first.deliveries < 5
    second = prune(batch=1)
    assert second.finished
    assert first.deliveries + second.deliveries == 5
    assert not Event.objects.exists()


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_it_does_not_wait_for_a_row_somebody_holds():
    row = make_endpoint()
    held, free = (ended(row, event_age=40, end_age=39) for _ in range(2))

    def hold_and_prune():
        with transaction.atomic():
            Delivery.objects.select_for_update().get(pk=held.pk)
            return together(prune)[0]

    assert hold_and_prune().deliveries == 1
    assert Delivery.objects.get() == held
    assert not Attempt.objects.filter(delivery_id=free.pk).exists()
    assert prune().deliveries == 1


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_two_at_once_do_no_harm():
    row = make_endpoint()
    for _ in range(30):
        ended(row, event_age=40, end_age=39)
    results = together(lambda: prune(batch=3), lambda: prune(batch=3))
    assert sum(result.deliveries for result in results) == 30
    assert not Attempt.objects.exists()


@pytest.mark.django_db(databases=["default", "second"])
def test_bodies_in_another_database_go_too(network):
    network(OUTBOX_DATABASES=["default", "second"])
    event = make_event(age=31 * DAY)
    entry = OutboxEntry.objects.get()
    OutboxEntry.objects.using("second").create(
        **{name: getattr(entry, name) for name in ("event_id", "type", "environment", "body", "occurred_at")},
        recorded_at=entry.recorded_at,
        dispatched_at=entry.dispatched_at,
    )
    entry.delete()
    Event.objects.filter(pk=event.pk).update(
        outbox_alias="second", outbox_id=OutboxEntry.objects.using("second").get().pk
    )
    assert prune() == Pruned(events=1, outbox=1)
    assert not OutboxEntry.objects.using("second").exists()


def test_the_walk_ends_at_rows_that_are_too_young(django_assert_max_num_queries):
    row = make_endpoint()
    for _ in range(30):
        make_delivery(row, state=DELIVERED)
    with django_assert_max_num_queries(23):
        prune(batch=5)
