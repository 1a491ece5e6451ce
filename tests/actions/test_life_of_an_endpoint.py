"""The actions with the whole path behind them: what a receiver sees of them."""

import json
from typing import Any

import pytest
from django.db import transaction
from standardwebhooks import Webhook

from tests.actions.builders import OPERATOR, tenant
from tests.actions.receiving import SECRET, Receiver
from webhooks_app import emit
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resume import resume
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import Attempt, Delivery, Endpoint
from webhooks_app.pipeline import doorbell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def inline(network: Any) -> Any:
    """Do the work of a wake at once."""
    network(QUEUE="inline")
    doorbell.reset()
    yield
    doorbell.reset()


def send(number: int = 1) -> str:
    """Emit one event and return its id."""
    with transaction.atomic():
        return emit("order.paid", {"number": number}, tenant="acme").id


def ids(receiver: Receiver) -> list[str]:
    """The webhook-id of each request."""
    return [headers["webhook-id"] for headers, _ in receiver.requests]


def test_a_replay_sends_the_same_bytes_and_id_in_a_new_attempt(endpoint: Endpoint, receiver: Receiver):
    event_id = send()
    assert replay(tenant(), endpoint, event_ids=[event_id]) == 1
    (first, body), (second, again) = receiver.requests
    assert first["webhook-id"] == second["webhook-id"] == event_id
    assert body == again
    assert first["webhook-delivery-id"] != second["webhook-delivery-id"]
    assert second["webhook-attempt"] == "2"
    assert Delivery.objects.get().state == "delivered"


def test_disabled_sends_nothing_and_a_replay_makes_up_for_it(endpoint: Endpoint, receiver: Receiver):
    pause(tenant(), endpoint)
    waiting = send()
    disable(tenant(), endpoint)
    unseen = send()
    resume(tenant(), endpoint)
    assert receiver.requests == []
    assert (Delivery.objects.get().state, Delivery.objects.get().last_error) == (
        "dead_lettered",
        "endpoint_disabled",
    )
    enable(tenant(), endpoint)
    assert receiver.requests == []
    assert replay(tenant(), endpoint, event_ids=[waiting, unseen]) == 2
    assert ids(receiver) == [waiting, unseen]


def test_paused_holds_and_resume_lets_go(endpoint: Endpoint, receiver: Receiver):
    pause(tenant(), endpoint)
    event_id = send()
    assert (receiver.requests, Attempt.objects.count()) == ([], 0)
    resume(tenant(), endpoint)
    assert ids(receiver) == [event_id]


def test_deleted_sends_nothing(endpoint: Endpoint, receiver: Receiver):
    pause(tenant(), endpoint)
    send()
    delete_endpoint(OPERATOR, endpoint)
    send()
    assert receiver.requests == []
    assert Delivery.objects.get().last_error == "endpoint_deleted"


def test_after_a_rotation_both_secrets_verify(endpoint: Endpoint, receiver: Receiver):
    rotated = rotate_secret(tenant(), endpoint)
    send(7)
    headers, body = receiver.requests[0]
    assert headers["webhook-signature"].count("v1,") == 2
    for secret in (rotated.secret, SECRET):
        assert Webhook(secret).verify(body.decode(), headers)["data"] == {"number": 7}
    only = rotate_secret(tenant(), endpoint, overlap_hours=0)
    send(8)
    headers, body = receiver.requests[1]
    assert headers["webhook-signature"].count("v1,") == 1
    assert Webhook(only.secret).verify(body.decode(), headers)["data"] == {"number": 8}


def test_waiting_deliveries_follow_the_new_url_and_headers(endpoint: Endpoint, receiver: Receiver):
    pause(tenant(), endpoint)
    send()
    secret = {"name": "X-Key", "value": "s3cr3t", "secret": True}
    changes = {"url": endpoint.url.replace("/in?", "/new?"), "retarget_pending": True, "headers": [secret]}
    update_endpoint(tenant(), endpoint, changes)
    resume(tenant(), endpoint)
    ((headers, body),) = receiver.requests
    assert receiver.paths == ["/new?token=S3CRET"]
    assert headers["x-key"] == "s3cr3t"
    assert json.loads(body)["type"] == "order.paid"
