"""Deleting: gone at once, secrets destroyed, open deliveries ended, evidence kept."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from tests.actions.builders import (
    OPERATOR,
    leased,
    make_attempt,
    make_delivery,
    make_endpoint,
    tenant,
    together,
    wait_for_a_blocked_session,
)
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.enable import enable
from webhooks_app.actions.replay import replay
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.actions.scope import get_endpoint
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.core.states import DEAD_LETTERED, DELIVERED, PENDING
from webhooks_app.exceptions import NotFound, PermissionDenied
from webhooks_app.models import Attempt, AuditEntry, Delivery, Endpoint, EndpointSecret
from webhooks_app.signals import delivery_ended

pytestmark = pytest.mark.django_db


def test_it_is_gone_and_so_are_its_secrets():
    row = make_endpoint(headers=[{"name": "X-Key", "value": "s3cr3t", "secret": True}])
    delete_endpoint(tenant(), row)
    with pytest.raises(NotFound):
        get_endpoint(OPERATOR, row.public_id)
    assert not EndpointSecret.objects.exists()
    kept = Endpoint.objects.get()
    assert kept.deleted_at is not None
    assert kept.headers == []
    assert kept.state.generation == 2
    assert AuditEntry.objects.latest("id").action == "webhook.deleted"


def test_a_second_delete_finds_nothing():
    row = make_endpoint()
    delete_endpoint(tenant(), row)
    with pytest.raises(NotFound):
        delete_endpoint(tenant(), row)


def test_open_deliveries_end_whatever_they_wait_for():
    row = make_endpoint()
    due = make_delivery(row)
    later = make_delivery(row, due_at=timezone.now() + timedelta(hours=9), attempts=3)
    lapsed = make_delivery(row, **leased(timezone.now() - timedelta(seconds=1)))
    delete_endpoint(tenant(), row)
    for each in (due, later, lapsed):
        each.refresh_from_db()
        assert (each.state, each.last_error) == (DEAD_LETTERED, "endpoint_deleted")
        assert each.finished_at is not None
        assert (each.due_at, each.lease_token, each.lease_until) == (None, None, None)


def test_what_is_being_sent_and_what_has_ended_stay():
    row = make_endpoint()
    sending = make_delivery(row, **leased())
    delivered = make_delivery(row, state=DELIVERED)
    make_attempt(delivered)
    other = make_delivery(make_endpoint())
    delete_endpoint(tenant(), row)
    assert Delivery.objects.get(pk=sending.pk).state == PENDING
    assert Delivery.objects.get(pk=sending.pk).lease_token == sending.lease_token
    assert Delivery.objects.get(pk=delivered.pk).state == DELIVERED
    assert Delivery.objects.get(pk=other.pk).state == PENDING
    assert Attempt.objects.exists()


def test_it_works_in_batches_and_tells_each_end_once(monkeypatch, caplog, django_capture_on_commit_callbacks):
    for module in ("ending", "delete_endpoint"):
        monkeypatch.setattr(f"webhooks_app.actions.{module}.BATCH", 2)
    told = []

    def tell(**values):
        told.append(values)

    row = make_endpoint()
    events = {make_delivery(row, attempts=2).event.public_id for _ in range(5)}
    delivery_ended.connect(tell)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            delete_endpoint(tenant(), row)
    finally:
        delivery_ended.disconnect(tell)
    assert {each["event_id"] for each in told} == events
    assert len(told) == 5
    assert {(each["state"], each["error"], each["attempts"]) for each in told} == {
        ("dead_lettered", "endpoint_deleted", 2)
    }
    assert sum("endpoint_deleted" in record.message for record in caplog.records) == 5


def test_foreign_endpoints_do_not_exist():
    with pytest.raises(NotFound):
        delete_endpoint(tenant("other"), make_endpoint())


def test_without_the_permission_nothing_happens():
    with pytest.raises(PermissionDenied):
        delete_endpoint(tenant(permissions=frozenset({"webhooks:read"})), make_endpoint())


LATE = {
    "update": lambda row: update_endpoint(tenant(), row, {"description": "late"}),
    "enable": lambda row: enable(tenant(), row),
    "rotate": lambda row: rotate_secret(tenant(), row),
    "replay": lambda row: replay(tenant(), row, event_ids=["evt_1"]),
    "delete": lambda row: delete_endpoint(tenant(), row),
}


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", sorted(LATE))
def test_who_waited_for_the_delete_finds_nothing(verb):
    row = make_endpoint()
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            delete_endpoint(tenant(), row)
            late = pool.submit(together, lambda: LATE[verb](row))
            wait_for_a_blocked_session()
        (result,) = late.result(10)
    assert isinstance(result, NotFound)
    assert Endpoint.objects.get().description == ""
    assert not EndpointSecret.objects.exists()
