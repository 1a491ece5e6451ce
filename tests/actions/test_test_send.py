"""The test delivery: one signed request, its evidence, and nothing else moves."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from standardwebhooks import Webhook

from tests.actions.builders import OPERATOR, make_delivery, tenant
from tests.actions.receiving import SECRET
from webhooks_app.actions import test_send as sending
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.pause import pause
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.destinations import https
from webhooks_app.destinations.base import Sent
from webhooks_app.exceptions import NotFound, PermissionDenied
from webhooks_app.models import (
    Attempt,
    AuditEntry,
    Delivery,
    Endpoint,
    EndpointSecret,
    EndpointState,
    Event,
    OutboxEntry,
)

pytestmark = pytest.mark.django_db


def test_the_receiver_can_verify_it(endpoint, receiver):
    attempt = sending.test_send(tenant(), endpoint)
    (headers, body), *others = receiver.requests
    assert others == []
    assert Webhook(SECRET).verify(body.decode(), headers)["data"] == {"message": "hello"}
    event = json.loads(body)
    assert (event["type"], event["tenant_id"], event["sequence"]) == ("webhook.test", "acme", None)
    assert (event["id"], attempt.event_id) == (headers["webhook-id"], headers["webhook-id"])
    assert headers["webhook-delivery-id"] == attempt.public_id
    assert headers["webhook-attempt"] == "1"


def test_the_attempt_is_stored(endpoint):
    returned = sending.test_send(tenant(), endpoint)
    row = Attempt.objects.get()
    assert row.pk == returned.pk
    assert (row.trigger, row.number, row.status, row.error) == ("test", 1, "succeeded", "")
    assert (row.delivery_id, row.endpoint_id, row.http_status) == (None, endpoint.pk, 200)
    assert bytes(row.reply_body) == b"done"
    assert row.target_ip == "127.0.0.1"
    assert row.signature.startswith("v1,")
    assert len(row.body_sha256) == 32
    assert "S3CRET" not in row.url


@pytest.mark.parametrize(("status", "error"), [(500, "status_5xx"), (410, "status_410"), (302, "redirect")])
def test_a_failure_is_stored_and_disables_nothing(endpoint, receiver, status, error):
    receiver.status = status
    row = sending.test_send(tenant(), endpoint)
    assert (row.status, row.error, row.next_attempt_at) == ("failed", error, None)
    assert EndpointState.objects.get().enabled
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("breaker", ["closed", "open", "half_open"])
def test_nothing_else_moves(endpoint, receiver, status, breaker):
    """B030"""
    receiver.status = status
    waiting = make_delivery(endpoint)
    at = timezone.now() + timedelta(minutes=1)
    EndpointState.objects.update(consecutive_failures=30, window=2, first_failure_at=at, warnings=1)
    EndpointState.objects.update(breaker=breaker, breaker_at=at, probe_at=at, breaker_successes=1)
    before = [list(model.objects.values()) for model in (EndpointState, EndpointSecret, Endpoint, Delivery)]
    for _ in range(10):
        sending.test_send(tenant(), endpoint)
    after = [list(model.objects.values()) for model in (EndpointState, EndpointSecret, Endpoint, Delivery)]
    assert after == before
    assert (Event.objects.count(), OutboxEntry.objects.count()) == (1, 1)
    assert waiting.attempt_rows.count() == 0


@pytest.mark.parametrize("stop", [disable, pause])
def test_it_is_allowed_on_endpoints_that_rest(endpoint, stop):
    stop(tenant(), endpoint)
    assert sending.test_send(tenant(), endpoint).status == "succeeded"
    assert EndpointState.objects.get().enabled == (stop is pause)


def test_a_secret_that_does_not_open_is_a_result(endpoint, receiver):
    EndpointSecret.objects.update(sealed="whs1.broken")
    row = sending.test_send(tenant(), endpoint)
    assert (row.status, row.error) == ("failed", "secret_unavailable")
    assert receiver.requests == []


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_the_receiver_is_waited_for(endpoint, monkeypatch):
    seen = []

    def send(config, message):
        seen.append(connection.in_atomic_block)
        return Sent(AttemptResult())

    monkeypatch.setattr(https, "send", send)
    sending.test_send(tenant(), endpoint)
    assert seen == [False]


def test_it_is_audited_without_url_and_secret(endpoint):
    row = sending.test_send(tenant(), endpoint)
    entry = AuditEntry.objects.latest("id")
    assert entry.action == "webhook.tested"
    assert entry.details == {"attempt": row.public_id, "status": "succeeded", "error": ""}


def test_foreign_and_deleted_endpoints_do_not_exist(endpoint, receiver):
    with pytest.raises(NotFound):
        sending.test_send(tenant("other"), endpoint)
    delete_endpoint(OPERATOR, endpoint)
    with pytest.raises(NotFound):
        sending.test_send(tenant(), endpoint)
    assert receiver.requests == []


def test_without_the_permission_nothing_is_sent(endpoint, receiver):
    with pytest.raises(PermissionDenied):
        sending.test_send(tenant(permissions=frozenset({"webhooks:read"})), endpoint)
    assert receiver.requests == []
