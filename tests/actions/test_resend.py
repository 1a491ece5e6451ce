"""Resend: one attempt at once, and the four rules of what it changes."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_event, tenant, together
from webhooks_app.actions import resend as resend_module
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resend import resend
from webhooks_app.core.states import DEAD, DELIVERED, EXHAUSTED, PENDING
from webhooks_app.exceptions import ActionError, Conflict, NotFound, PermissionDenied
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
from webhooks_app.pipeline import manual
from webhooks_app.pipeline.batch import Batch, OutcomesKeptError
from webhooks_app.pipeline.manual import Manual

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
COLUMNS = ("state", "step", "deferrals", "due_at", "started_at", "finished_at", "position", "priority")


def columns(row: Delivery) -> dict:
    return Delivery.objects.values(*COLUMNS).get(pk=row.pk)


def test_a_success_ends_an_open_delivery_and_its_schedule(endpoint, receiver):
    row = make_delivery(endpoint, attempts=3, step=3, last_error="timeout", due_at=timezone.now() + DAY)
    attempt = resend(tenant(), row)
    assert (attempt.trigger, attempt.status, attempt.number) == ("manual", "succeeded", 4)
    row.refresh_from_db()
    assert (row.state, row.due_at, row.attempts) == (DELIVERED, None, 4)
    assert row.first_delivered_at is not None
    ((headers, body),) = receiver.requests
    assert headers["webhook-id"] == row.event.public_id
    assert headers["webhook-delivery-id"] == attempt.public_id
    assert body == b"{}"


def test_a_failure_leaves_the_schedule_as_it_was(endpoint, receiver):
    receiver.status = 500
    row = make_delivery(endpoint, attempts=3, step=3, last_error="timeout", due_at=timezone.now() + DAY)
    before = columns(row)
    attempt = resend(OPERATOR, row)
    assert (attempt.status, attempt.error, attempt.http_status) == ("failed", "status_5xx", 500)
    assert columns(row) == before
    row.refresh_from_db()
    assert (row.attempts, row.lease_token) == (4, None)


@pytest.mark.parametrize("state", sorted(DEAD))
def test_an_ended_delivery_is_delivered_or_stays_what_it_was(state, endpoint, receiver):
    row = make_delivery(endpoint, state=state, attempts=13, last_error="timeout")
    before = columns(row)
    receiver.status = 503
    assert resend(OPERATOR, row).status == "failed"
    assert columns(row) == before
    receiver.status = 200
    assert resend(OPERATOR, row).status == "succeeded"
    row.refresh_from_db()
    assert (row.state, row.attempts) == (DELIVERED, 15)


def test_a_paused_endpoint_gets_it_and_a_disabled_one_does_not(endpoint, receiver):
    row = make_delivery(endpoint)
    pause(OPERATOR, endpoint)
    assert resend(OPERATOR, row).status == "succeeded"
    disable(OPERATOR, endpoint)
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, row)
    assert caught.value.code == "webhook_disabled"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(("status", "control", "reason"), [(410, "", "gone"), (503, "disable", "consumer")])
def test_a_receiver_that_wants_no_more_is_disabled(status, control, reason, endpoint, receiver):
    receiver.status, receiver.control = status, control
    resend(OPERATOR, make_delivery(endpoint, state=EXHAUSTED, attempts=13))
    endpoint.state.refresh_from_db()
    assert (endpoint.state.enabled, endpoint.state.disabled_reason) == (False, reason)


def test_a_suspended_tenant_gets_nothing_and_its_delivery_stays(endpoint, receiver):
    row = make_delivery(endpoint)
    Tenant.objects.create(id="acme", suspended_at=timezone.now())
    before = columns(row)
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, row)
    assert (caught.value.code, receiver.requests) == ("tenant_suspended", [])
    assert columns(row) == before
    Tenant.objects.update(suspended_at=None)
    assert resend(OPERATOR, row).status == "succeeded"


def test_what_is_being_sent_is_a_conflict(endpoint, receiver):
    row = make_delivery(endpoint, **leased())
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, row)
    assert caught.value.code == "delivery_in_flight"
    assert not receiver.requests


@pytest.mark.parametrize("values", [{"age": 31 * DAY}, {"expires_at": timezone.now() - DAY}])
def test_what_is_too_old_is_not_sent(values, endpoint, receiver):
    row = make_delivery(endpoint, make_event(**values))
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, row)
    assert caught.value.code == "event_unavailable"
    assert not receiver.requests


def test_what_was_erased_is_not_sent(endpoint, receiver):
    row = make_delivery(endpoint)
    OutboxEntry.objects.all().delete()
    Event.objects.update(outbox_id=None, outbox_alias=None)
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, row)
    assert caught.value.code == "event_unavailable"


def test_an_outbox_that_does_not_answer(endpoint, monkeypatch):
    row = make_delivery(endpoint)
    monkeypatch.setattr(resend_module.manual, "send_now", lambda alias, key: Manual(None, PENDING))
    with pytest.raises(ActionError) as caught:
        resend(OPERATOR, row)
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize("error", [OperationalError("away"), OutcomesKeptError()])
def test_what_was_sent_is_recorded_although_that_fails_at_first(error, endpoint, receiver, monkeypatch):
    """Else the schedule would send it again, and nobody would know of this request."""
    row = make_delivery(endpoint, due_at=timezone.now() + DAY)
    real, tries = Batch.record, []

    def record(batch, *args):
        tries.append(len(receiver.requests))
        if len(tries) < 3:
            raise error
        return real(batch, *args)

    monkeypatch.setattr(Batch, "record", record)
    monkeypatch.setattr(manual, "RECORD_AGAIN", 0.001)
    attempt = resend(OPERATOR, row)
    row.refresh_from_db()
    assert (tries, attempt.status, row.state) == ([1, 1, 1], "succeeded", DELIVERED)


def test_a_record_is_tried_while_the_claim_holds_and_no_longer(endpoint, receiver, monkeypatch):
    def record(batch, *args):
        batch.lease.mark -= 60
        raise OperationalError("away")

    monkeypatch.setattr(Batch, "record", record)
    with pytest.raises(OperationalError):
        resend(OPERATOR, make_delivery(endpoint, due_at=timezone.now() + DAY))


def test_who_may_and_the_audit(endpoint):
    row = make_delivery(endpoint)
    with pytest.raises(NotFound) as caught:
        resend(tenant("other"), row)
    assert caught.value.code == "delivery_not_found"
    with pytest.raises(PermissionDenied):
        resend(tenant(permissions=frozenset({"webhooks:read"})), row)
    attempt = resend(tenant(), row)
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.target_id, entry.actor_id) == ("delivery.resent", endpoint.public_id, "key_1")
    expected = {"delivery": row.public_id, "attempt": attempt.public_id, "status": "succeeded", "error": ""}
    assert entry.details == expected
    delete_endpoint(OPERATOR, endpoint)
    with pytest.raises(NotFound):
        resend(OPERATOR, row)


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_of_several_at_once_one_runs(endpoint, receiver):
    row = make_delivery(endpoint)
    results = together(*[lambda: resend(OPERATOR, row)] * 4)
    attempts = [each for each in results if isinstance(each, Attempt)]
    conflicts = [each.code for each in results if isinstance(each, Conflict)]
    assert len(attempts) == len(receiver.requests) >= 1
    assert len(attempts) + conflicts.count("delivery_in_flight") == 4
    numbers = list(Attempt.objects.order_by("number").values_list("number", flat=True))
    assert numbers == list(range(1, len(attempts) + 1))


def test_a_failure_does_not_deliver_again_what_was_delivered(endpoint, receiver):
    receiver.status = 500
    long_ago = timezone.now() - 3 * DAY
    times = {"finished_at": long_ago, "first_delivered_at": long_ago}
    row = make_delivery(endpoint, state=DELIVERED, attempts=1, **times)
    told = EndpointState.objects.values("delivered", "retried", "last_success_at")
    before, state = columns(row), told.get()
    assert resend(OPERATOR, row).status == "failed"
    assert columns(row) == before
    assert told.all().get() == state


@pytest.mark.parametrize("state", [PENDING, EXHAUSTED])
def test_what_could_not_be_sent_leaves_everything_as_it_was(state, endpoint, receiver, monkeypatch):
    due_at = timezone.now() + DAY if state == PENDING else None
    row = make_delivery(endpoint, state=state, due_at=due_at)
    Endpoint.objects.update(rate_limit={"per_second": 1, "burst": 5})
    EndpointState.objects.update(tokens=2, tokens_at=timezone.now())
    before = columns(row)

    def fail(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(manual, "contents_of", fail)
    with pytest.raises(OperationalError):
        resend(OPERATOR, row)
    row.refresh_from_db()
    assert (columns(row), row.lease_token) == (before, None)
    assert EndpointState.objects.get().tokens == 2
