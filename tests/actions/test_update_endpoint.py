"""Updating: only what is named changes, a new URL needs care, secrets cannot be read back."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, URL, make_delivery, make_endpoint, tenant, together
from webhooks_app.actions.actor import WEBHOOKS_READ
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.core.states import DELIVERED
from webhooks_app.destinations.sealing import open_header
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Endpoint, EndpointState

pytestmark = pytest.mark.django_db

OTHER = "https://other.customer.com/in?token=S3CRET"
SECRET_HEADER = {"name": "X-Key", "value": "s3cr3t", "secret": True}


def last_audit() -> AuditEntry:
    return AuditEntry.objects.latest("id")


def test_the_named_fields_change_and_the_others_stay():
    row = make_endpoint(description="old", max_in_flight=7)
    changed = update_endpoint(tenant(), row, {"events": [], "identity_ids": ["a"], "description": None})
    assert (changed.events, changed.identity_ids, changed.description) == ([], ["a"], "")
    assert (changed.url, changed.max_in_flight) == (URL, 7)
    assert changed.revision == row.revision + 1
    assert changed.updated_at > row.updated_at


def test_a_stale_copy_overwrites_nothing():
    row = make_endpoint()
    stale = Endpoint.objects.get(pk=row.pk)
    update_endpoint(tenant(), row, {"description": "new"})
    assert update_endpoint(tenant(), stale, {"max_in_flight": 5}).description == "new"


def test_nothing_new_changes_nothing_and_is_not_audited():
    row = make_endpoint(description="same")
    before = AuditEntry.objects.count()
    changed = update_endpoint(tenant(), row, {"description": "same", "url": URL})
    assert changed.revision == row.revision
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, ""),
        ({"retarget_pending": True}, ""),
        ({"colour": "red"}, "colour"),
        ({"secret": "whsec_x"}, "secret"),
        ({"tenant_id": "other"}, "tenant_id"),
        ({"environment": "test"}, "environment"),
        ({"enabled": "yes"}, "enabled"),
        ({"url": "https://hooks.private.com/"}, "url"),
        ({"events": ["a b"]}, "events/0"),
        ({"policy": None}, "policy"),
        ({"policy_overrides": {"waits": [1] * 30}}, "policy_overrides/waits"),
        ({"headers": [{"name": "X-Key", "secret": True}]}, "headers/0/value"),
        ({"max_in_flight": "7"}, "max_in_flight"),
    ],
)
def test_a_refused_change_is_named_and_nothing_is_written(changes, path):
    row = make_endpoint()
    with pytest.raises(InvalidRequest) as caught:
        update_endpoint(tenant(), row, {**changes})
    assert [each for each, _ in caught.value.errors] == [path]
    assert Endpoint.objects.get().revision == row.revision


def test_overrides_must_fit_the_policy_that_is_there():
    row = make_endpoint(policy_overrides={"total_timeout": 10})
    with pytest.raises(InvalidRequest):
        update_endpoint(tenant(), row, {"policy_overrides": {"total_timeout": 4}})
    assert update_endpoint(tenant(), row, {"policy_overrides": None}).policy_overrides == {}


def test_a_new_url_while_deliveries_are_open_needs_a_word():
    row = make_endpoint()
    make_delivery(row)
    with pytest.raises(Conflict) as caught:
        update_endpoint(tenant(), row, {"url": OTHER, "description": "new"})
    assert caught.value.code == "deliveries_pending"
    assert (Endpoint.objects.get().url, Endpoint.objects.get().description) == (URL, "")
    assert update_endpoint(tenant(), row, {"url": OTHER, "retarget_pending": True}).url == OTHER


def test_a_new_url_gets_what_waits_at_once():
    row = make_endpoint()
    later = timezone.now() + timedelta(hours=8)
    waiting = make_delivery(row, due_at=later, attempts=7)
    sending = make_delivery(row, due_at=later, lease_token=uuid4(), lease_until=later)
    update_endpoint(tenant(), row, {"url": OTHER, "retarget_pending": True})
    waiting.refresh_from_db()
    sending.refresh_from_db()
    assert (waiting.due_at <= timezone.now(), waiting.attempts, sending.due_at) == (True, 7, later)


def test_ended_deliveries_do_not_hold_a_url_up():
    row = make_endpoint()
    make_delivery(row, state=DELIVERED)
    assert update_endpoint(tenant(), row, {"url": OTHER}).url == OTHER


def test_a_new_url_begins_a_new_life(rung, django_capture_on_commit_callbacks):
    row = make_endpoint()
    EndpointState.objects.update(consecutive_failures=99, window=1)
    with django_capture_on_commit_callbacks(execute=True):
        update_endpoint(tenant(), row, {"url": OTHER})
    state = EndpointState.objects.get()
    assert (state.consecutive_failures, state.window, state.generation, state.enabled) == (0, 4, 2, True)
    assert rung == [row.pk]


def test_the_audit_has_both_hosts_and_no_more_of_the_url():
    update_endpoint(tenant(), make_endpoint(), {"url": OTHER, "headers": [SECRET_HEADER], "description": "x"})
    details = last_audit().details
    assert details["host"]["old"] == "hooks.customer.com"
    assert details["host"]["new"] == "other.customer.com"
    assert details["fields"] == ["description", "headers"]
    assert details["headers"] == ["X-Key"]
    assert "s3cr3t" not in str(details)
    assert "S3CRET" not in str(details)


def test_a_secret_header_left_without_value_keeps_it():
    row = make_endpoint(headers=[SECRET_HEADER])
    sealed = row.headers[0]["sealed"]
    kept = {"name": "x-key", "secret": True}
    changed = update_endpoint(tenant(), row, {"headers": [kept, {"name": "X-Team", "value": "blue"}]})
    assert changed.headers == [{**kept, "sealed": sealed}, {"name": "X-Team", "value": "blue"}]
    assert open_header(row.public_id, "x-key", sealed) == "s3cr3t"


@pytest.mark.parametrize("mark", [{}, {"secret": False}])
def test_a_secret_header_cannot_be_made_readable(mark):
    row = make_endpoint(headers=[SECRET_HEADER])
    with pytest.raises(InvalidRequest):
        update_endpoint(tenant(), row, {"headers": [{"name": "X-Key", **mark}]})


def test_a_secret_header_gets_a_new_value_or_goes():
    row = make_endpoint(headers=[SECRET_HEADER])
    changed = update_endpoint(tenant(), row, {"headers": [{**SECRET_HEADER, "value": "n3w"}]})
    assert open_header(row.public_id, "X-Key", changed.headers[0]["sealed"]) == "n3w"
    assert update_endpoint(tenant(), row, {"headers": []}).headers == []


def test_enabled_goes_through_enable_and_disable():
    row = make_endpoint()
    update_endpoint(tenant(), row, {"enabled": False, "description": "off"})
    state = EndpointState.objects.get()
    assert (state.enabled, state.disabled_reason) == (False, "manual")
    update_endpoint(tenant(), row, {"enabled": True})
    assert EndpointState.objects.get().enabled


def test_foreign_and_deleted_endpoints_do_not_exist():
    row = make_endpoint()
    with pytest.raises(NotFound) as caught:
        update_endpoint(tenant("other"), row, {"description": "mine"})
    assert caught.value.code == "webhook_not_found"
    with pytest.raises(NotFound):
        update_endpoint(tenant(environment="test"), row, {"description": "mine"})
    delete_endpoint(OPERATOR, row)
    with pytest.raises(NotFound):
        update_endpoint(tenant(), row, {"description": "late"})


def test_without_the_permission_nothing_happens():
    row = make_endpoint()
    with pytest.raises(PermissionDenied):
        update_endpoint(tenant(permissions=frozenset({WEBHOOKS_READ})), row, {"description": "x"})


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_concurrent_edits_of_different_fields_all_last():
    row = make_endpoint()
    changes = [{"description": "new"}, {"max_in_flight": 5}, {"events": ["a"]}, {"method": "PUT"}]
    together(*[lambda change=change: update_endpoint(tenant(), row, change) for change in changes])
    row.refresh_from_db()
    assert (row.description, row.max_in_flight, row.events, row.method) == ("new", 5, ["a"], "PUT")
    assert row.revision == 5
