"""Release of outbox entries that were set aside."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint, tenant
from webhooks_app import emit
from webhooks_app.actions.release_entries import release_entries
from webhooks_app.exceptions import PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, OutboxEntry
from webhooks_app.pipeline import doorbell, inline

pytestmark = pytest.mark.django_db(databases=["default", "second"])


def aside(using: str = "default", **values: Any) -> OutboxEntry:
    """An entry that was set aside, in one of the databases."""
    with transaction.atomic(using=using):
        ref = emit("order.paid", {}, tenant="acme", using=using)
    rows = OutboxEntry.objects.using(using).filter(event_id=ref.id)
    rows.update(**{"failures": 3, "set_aside_at": timezone.now(), **values})
    return rows.get()


@pytest.mark.parametrize("alias", ["default", "second"])
def test_it_is_fanned_out_then(
    network: Any, alias: str, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
):
    network(OUTBOX_DATABASES=["default", "second"])
    rung: list[bool] = []
    monkeypatch.setattr(doorbell, "ring", lambda *, fan_out=False, **_: rung.append(fan_out))
    make_endpoint()
    entry = aside(alias)
    inline.fan_out()
    assert Delivery.objects.count() == 0
    rung.clear()
    with django_capture_on_commit_callbacks(using=alias, execute=True):
        assert release_entries(OPERATOR, outbox_alias=alias, ids=[entry.pk]) == 1
    assert rung == [True]
    inline.fan_out()
    assert Delivery.objects.count() == 1
    entry.refresh_from_db()
    assert (entry.failures, entry.set_aside_at) == (0, None)
    assert entry.dispatched_at is not None


def test_others_are_left_alone():
    waiting = aside(set_aside_at=None, failures=2)
    gone = aside(dispatched_at=timezone.now())
    assert release_entries(OPERATOR, outbox_alias="default", ids=[waiting.pk, gone.pk, 10**9]) == 0
    waiting.refresh_from_db()
    assert waiting.failures == 2
    assert not AuditEntry.objects.filter(action="outbox.released").exists()


def test_it_is_audited():
    entry = aside()
    release_entries(OPERATOR, outbox_alias="default", ids=[entry.pk])
    audited = AuditEntry.objects.get(action="outbox.released")
    assert audited.details == {"outbox": "default", "event_ids": [entry.event_id]}
    assert (audited.target_type, audited.actor_kind) == ("installation", "command")


def test_keys_release_nothing():
    entry = aside()
    with pytest.raises(PermissionDenied):
        release_entries(tenant(), outbox_alias="default", ids=[entry.pk])
    entry.refresh_from_db()
    assert entry.set_aside_at is not None
