"""Cancel: open deliveries end unsent, one of them or all of an endpoint."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event, tenant
from webhooks_app.actions import ending
from webhooks_app.actions.cancel import Cancelled, cancel, cancel_open
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.replay import replay
from webhooks_app.core.states import CANCELLED, ENDED, EXHAUSTED, PENDING
from webhooks_app.exceptions import Conflict, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, Endpoint, EndpointState
from webhooks_app.signals import delivery_ended

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def test_an_open_delivery_ends_and_keeps_its_last_error():
    row = make_delivery(make_endpoint(), attempts=3, step=3, last_error="timeout")
    done = cancel(tenant(), row)
    assert (done.state, done.last_error, done.due_at, done.attempts) == (CANCELLED, "timeout", None, 3)
    assert done.finished_at is not None
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.details) == ("delivery.cancelled", {"delivery": row.public_id})
    assert entry.target_id == row.endpoint.public_id
    assert EndpointState.objects.get().dead_lettered == 1


def test_listeners_hear_of_it_after_the_commit(django_capture_on_commit_callbacks):
    row, heard = make_delivery(make_endpoint()), []

    def listen(**values):
        heard.append((values["state"], values["event_id"]))

    delivery_ended.connect(listen)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            cancel(OPERATOR, row)
            assert not heard
    finally:
        delivery_ended.disconnect(listen)
    assert heard == [(CANCELLED, row.event.public_id)]


def test_a_cancelled_delivery_can_be_replayed():
    row = make_delivery(make_endpoint())
    cancel(OPERATOR, row)
    assert replay(OPERATOR, row.endpoint, event_ids=[row.event.public_id]) == 1
    row.refresh_from_db()
    assert row.state == PENDING


def test_what_is_being_sent_is_a_conflict_but_a_lapsed_claim_is_none():
    endpoint = make_endpoint()
    sending = make_delivery(endpoint, **leased())
    with pytest.raises(Conflict) as caught:
        cancel(OPERATOR, sending)
    assert caught.value.code == "delivery_in_flight"
    lapsed = make_delivery(endpoint, **leased(timezone.now() - DAY))
    assert cancel(OPERATOR, lapsed).lease_token is None


@pytest.mark.parametrize("state", sorted(ENDED))
def test_what_has_ended_is_a_conflict(state):
    row = make_delivery(make_endpoint(), state=state)
    with pytest.raises(Conflict) as caught:
        cancel(OPERATOR, row)
    assert caught.value.code == "delivery_ended"
    row.refresh_from_db()
    assert row.state == state


def test_who_may():
    row = make_delivery(make_endpoint())
    with pytest.raises(NotFound) as caught:
        cancel(tenant("other"), row)
    assert caught.value.code == "delivery_not_found"
    with pytest.raises(PermissionDenied):
        cancel(tenant(permissions=frozenset({"webhooks:read"})), row)
    with pytest.raises(NotFound):
        cancel_open(tenant("other"), row.endpoint)
    delete_endpoint(OPERATOR, row.endpoint)
    with pytest.raises(NotFound):
        cancel(OPERATOR, row)


def test_the_next_of_a_lane_comes_due(rung, django_capture_on_commit_callbacks):
    endpoint = make_endpoint()
    Endpoint.objects.filter(pk=endpoint.pk).update(ordering="subject")
    values = {"lane": "-5:order1:1", "priority": Delivery.Priority.ORDERED}
    head = make_delivery(endpoint, position=1, due_at=timezone.now() + DAY, **values)
    parked = make_delivery(endpoint, make_event(), position=2, **values)
    Delivery.objects.filter(pk=parked.pk).update(due_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        cancel(OPERATOR, head)
    parked.refresh_from_db()
    assert parked.due_at <= timezone.now()
    assert rung == [endpoint.pk]


def test_all_open_ones_of_an_endpoint(monkeypatch):
    monkeypatch.setattr(ending, "BATCH", 2)
    monkeypatch.setattr("webhooks_app.actions.cancel.BATCH", 2)
    endpoint, other = make_endpoint(), make_endpoint()
    open_ones = [make_delivery(endpoint) for _ in range(5)]
    kept = [
        make_delivery(endpoint, **leased()),
        make_delivery(endpoint, state=EXHAUSTED),
        make_delivery(other),
    ]
    before = [row.state for row in kept]
    assert cancel_open(tenant(), endpoint) == Cancelled(5, finished=True)
    assert {row.state for row in Delivery.objects.filter(pk__in=[row.pk for row in open_ones])} == {CANCELLED}
    assert [Delivery.objects.get(pk=row.pk).state for row in kept] == before
    assert AuditEntry.objects.latest("id").action == "webhook.deliveries_cancelled"


def test_it_stops_in_time_and_goes_on(monkeypatch):
    monkeypatch.setattr(ending, "BATCH", 2)
    monkeypatch.setattr("webhooks_app.actions.cancel.BATCH", 2)
    endpoint = make_endpoint()
    for _ in range(3):
        make_delivery(endpoint)
    assert cancel_open(OPERATOR, endpoint, max_seconds=-1) == Cancelled(2, finished=False)
    assert cancel_open(OPERATOR, endpoint) == Cancelled(1, finished=True)
