"""Erase: no payload is left anywhere, and what happened can still be told."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from tests.actions.builders import (
    ALL,
    OPERATOR,
    leased,
    make_attempt,
    make_delivery,
    make_endpoint,
    tenant,
)
from tests.actions.erasing import CANARY, canaries, copy_of, gone_on, personal
from tests.actions.jobs import counts, finished, one_batch
from webhooks_app.actions import erase as erase_module
from webhooks_app.actions import run_jobs as run_jobs_module
from webhooks_app.actions.actor import Actor
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.erase import erase
from webhooks_app.actions.jobs import cancel_job
from webhooks_app.actions.replay import replay
from webhooks_app.actions.scope import get_job, visible_jobs
from webhooks_app.core.states import DEAD_LETTERED, DELIVERED, EXHAUSTED, PENDING
from webhooks_app.events import emit
from webhooks_app.exceptions import InvalidRequest, PermissionDenied
from webhooks_app.models import Attempt, AuditEntry, Delivery, EndpointState, Event, Job, OutboxEntry
from webhooks_app.pipeline.contents import read_contents
from webhooks_app.signals import delivery_ended

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def test_every_place_is_emptied():
    row, event = make_endpoint(), personal(identity_id="ann")
    delivered = make_delivery(row, event, state=DELIVERED)
    attempt = make_attempt(delivered)
    Attempt.objects.filter(pk=attempt.pk).update(reply_body=CANARY, reply_headers=[["X-Echo", "ann"]])
    copy_of(event)
    OutboxEntry.objects.create(
        event_id="waiting",
        type="a",
        tenant_id="acme",
        identity_id="ann",
        environment="live",
        body=CANARY,
        occurred_at=timezone.now(),
        set_aside_at=timezone.now(),
    )
    other = personal(identity_id="bob")
    assert canaries() == 5
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 3, 3, 0)
    assert canaries() == 1
    assert OutboxEntry.objects.get().pk == other.outbox_id
    attempt.refresh_from_db()
    assert (bytes(attempt.reply_body), attempt.reply_headers) == (b"", [])
    assert read_contents("default", [event.pk])[event.pk].body is None
    delivered.refresh_from_db()
    assert delivered.state == DELIVERED


def test_open_deliveries_end_and_those_being_sent_are_waited_for():
    row, event = make_endpoint(), personal(subject="order/1")
    other = make_endpoint()
    waiting = make_delivery(row, event, attempts=2, last_error="timeout")
    sending = make_delivery(other, event, **leased())
    dead = make_delivery(make_endpoint(), event, state=EXHAUSTED, last_error="timeout")
    heard = []

    def listen(**values):
        heard.append((values["event_id"], values["state"], values["error"]))

    delivery_ended.connect(listen)
    job = erase(OPERATOR, subject="order/1")
    try:
        finished(job)
    finally:
        delivery_ended.disconnect(listen)
    waiting.refresh_from_db(), sending.refresh_from_db(), dead.refresh_from_db()
    assert (waiting.state, waiting.last_error, waiting.due_at) == (DEAD_LETTERED, "event_unavailable", None)
    assert waiting.finished_at is not None
    assert (sending.state, dead.state, dead.last_error) == (PENDING, EXHAUSTED, "timeout")
    assert (job.state, job.params["busy"]) == ("running", [sending.pk])
    assert heard == [(event.public_id, DEAD_LETTERED, "event_unavailable")]
    assert EndpointState.objects.get(pk=row.pk).dead_lettered == 1
    Delivery.objects.filter(pk=sending.pk).update(lease_until=timezone.now() - DAY)
    assert counts(gone_on(job)) == ("succeeded", 1, 1, 0)
    sending.refresh_from_db()
    assert (sending.state, sending.lease_token) == (DEAD_LETTERED, None)


def test_all_labels_must_hold():
    wanted = personal(tenant_id="acme", identity_id="ann")
    personal(tenant_id="other", identity_id="ann"), personal(tenant_id="acme", identity_id="bob")
    finished(erase(OPERATOR, tenant_id="acme", identity_id="ann"))
    assert canaries() == 2
    wanted.refresh_from_db()
    assert (wanted.outbox_id, wanted.outbox_alias, wanted.type) == (None, None, "order.paid")
    finished(erase(OPERATOR, tenant_id="other"))
    assert canaries() == 1


def test_again_does_no_harm():
    make_delivery(make_endpoint(), personal(identity_id="ann"))
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 1, 1, 0)
    before = list(Delivery.objects.values())
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 0, 0, 0)
    assert list(Delivery.objects.values()) == before


def test_a_crash_between_the_databases_is_made_good(monkeypatch):
    monkeypatch.setattr(erase_module, "BATCH", 2)
    events = [personal(identity_id="ann") for _ in range(5)]
    for event in events:
        make_delivery(make_endpoint(), event)
    job = erase(OPERATOR, identity_id="ann")
    one_batch(job)

    def die(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(erase_module, "erase_events", die)
        with pytest.raises(SystemExit):
            run_jobs_module.run_jobs()
    Job.objects.update(claimed_until=timezone.now() - DAY)
    assert counts(finished(job)) == ("succeeded", 5, 5, 0)
    assert canaries() == 0
    assert set(Delivery.objects.values_list("state", flat=True)) == {DEAD_LETTERED}


def test_an_event_for_very_many_endpoints_has_a_batch_of_its_own(monkeypatch):
    monkeypatch.setattr(erase_module, "DELIVERIES", 2)
    for number in (1, 3, 1):
        event = personal(identity_id="ann")
        for _ in range(number):
            make_delivery(make_endpoint(), event)
    job = erase(OPERATOR, identity_id="ann")
    assert [one_batch(job).done for _ in range(2)] == [1, 2]
    assert counts(finished(job)) == ("succeeded", 3, 3, 0)


def test_deliveries_of_deleted_endpoints_are_no_hindrance():
    row = make_endpoint()
    make_delivery(row, personal(identity_id="ann"), **leased())
    delete_endpoint(OPERATOR, row)
    Delivery.objects.update(lease_until=timezone.now() - DAY)
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 1, 1, 0)
    assert Delivery.objects.get().state == DEAD_LETTERED


def test_who_was_erased_is_forgotten_with_the_work():
    personal(identity_id="ann-canary")
    job = erase(OPERATOR, identity_id="ann-canary")
    assert finished(job).params == {}
    assert (job.tenant_id, job.partner_id) == (None, None)
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.target_id) == ("payloads.erasure_begun", job.public_id)
    assert entry.details == {"job": job.public_id, "total": 1, "labels": ["identity_id"]}
    assert "canary" not in str(list(AuditEntry.objects.values()))


def test_the_audit_names_the_tenant_and_the_kinds_of_the_labels():
    erase(OPERATOR, tenant_id="acme", subject="canary")
    entry = AuditEntry.objects.latest("id")
    assert (entry.target_type, entry.target_id, entry.tenant_id) == ("tenant", "acme", "acme")
    assert entry.details["labels"] == ["subject", "tenant_id"]
    assert "canary" not in str(entry.details)


def test_the_platforms_keys_see_the_job_and_leave_it_to_the_operator():
    job = erase(OPERATOR, tenant_id="acme")
    key = Actor("key", "key_3", "platform", environment="live", permissions=ALL)
    assert get_job(key, job.public_id) == job
    assert list(visible_jobs(key)) == [job]
    assert not visible_jobs(tenant(environment="live")).exists()
    with pytest.raises(PermissionDenied):
        cancel_job(key, job)
    cancelled = cancel_job(OPERATOR, job)
    assert (cancelled.state, cancelled.params) == ("cancelled", {})


def test_a_failed_erasure_forgets_whom_it_was_about_too(monkeypatch):
    personal(identity_id="ann-canary")
    job = erase(OPERATOR, identity_id="ann-canary")

    def fail(*_: object) -> None:
        raise ValueError("a slip")

    monkeypatch.setattr(erase_module.EraseSteps, "look", fail)
    assert (finished(job).state, finished(job).params) == ("failed", {})


def test_what_was_erased_is_left_out_of_a_replay():
    row, event = make_endpoint(), personal(identity_id="ann")
    make_delivery(row, event, state=DELIVERED)
    assert replay(OPERATOR, row, event_ids=[event.public_id]) == 1
    finished(erase(OPERATOR, identity_id="ann"))
    assert replay(OPERATOR, row, event_ids=[event.public_id]) == 0


def test_what_receivers_answered_to_a_payload_that_is_gone_already_is_forgotten_too():
    event = personal(identity_id="ann")
    attempt = make_attempt(make_delivery(make_endpoint(), event, state=DELIVERED))
    Attempt.objects.filter(pk=attempt.pk).update(reply_body=CANARY)
    OutboxEntry.objects.all().delete()
    Event.objects.update(outbox_alias=None, outbox_id=None)
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 0, 0, 0)
    assert canaries() == 0


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({}, "tenant_id"),
        ({"tenant_id": ""}, "tenant_id"),
        ({"identity_id": 7}, "identity_id"),
        ({"subject": "x" * 257}, "subject"),
        ({"subject": "a\x00b"}, "subject"),
    ],
)
def test_refused_requests(values, path):
    with pytest.raises(InvalidRequest) as caught:
        erase(OPERATOR, **values)
    assert [each for each, _ in caught.value.errors] == [path]


def test_only_the_operator_erases():
    with pytest.raises(PermissionDenied):
        erase(tenant(), tenant_id="acme")


@pytest.mark.django_db(transaction=True)
def test_an_event_that_was_erased_before_its_fan_out_never_leaves():
    make_endpoint()
    with transaction.atomic():
        emit("order.paid", {"a": 1}, tenant="acme", identity="ann")
    finished(erase(OPERATOR, identity_id="ann"))
    assert not OutboxEntry.objects.exists()
