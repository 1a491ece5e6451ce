"""An event that could not be fanned out is not lost: it is told, found, released by a person, delivered."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from tests.conformance.consumer import Consumer
from tests.conformance.driving import delivery
from webhooks_app.models import Endpoint, OutboxEntry
from webhooks_app.ops.doctor.flow import check_set_aside
from webhooks_app.pipeline import fan_out, inline

Emit = Callable[..., str]
LIST = "admin:webhooks_app_outboxentry_changelist"


@pytest.fixture
def entry(endpoint: Endpoint, emit: Emit, monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> OutboxEntry:
    """An entry whose fan-out failed three times; whatever made it fail is mended."""

    real = fan_out.Item.of

    def fail(entry: Any, *rest: Any) -> Any:
        if OutboxEntry.objects.filter(event_id=entry.event_id).exists():
            raise ValueError("a fault of ours")
        return real(entry, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(fan_out.Item, "of", fail)
        emit()
        for _ in range(2):
            inline.fan_out()
    inline.tick_once()
    found = OutboxEntry.objects.get()
    assert (found.failures, consumer.requests) == (3, [])
    assert found.set_aside_at is not None
    return found


def release(client: Client, entry: OutboxEntry, run: Any) -> str:
    """Choose the entry and the action in the admin; return the page that follows."""
    sent = {"action": "release_selected", "_selected_action": [entry.pk]}
    with run(execute=True):
        answer = client.post(reverse(LIST) + "?progress=set_aside", sent, follow=True)
    return str(answer.content.decode())


def test_the_doctor_names_it_and_the_admin_releases_it(
    entry: OutboxEntry, consumer: Consumer, admin_client: Client, django_capture_on_commit_callbacks: Any
):
    (finding,) = check_set_aside()
    assert entry.event_id in finding.message
    assert entry.event_id in admin_client.get(reverse(LIST) + "?progress=set_aside").content.decode()
    assert "1 of 1" in release(admin_client, entry, django_capture_on_commit_callbacks)
    assert delivery().state == "delivered"
    assert [request.headers["webhook-id"] for request in consumer.requests] == [entry.event_id]
    (finding,) = check_set_aside()
    assert "no event was set aside" in finding.message


def test_who_may_only_look_releases_nothing(
    entry: OutboxEntry, consumer: Consumer, django_capture_on_commit_callbacks: Any
):
    clerk = get_user_model().objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename="view_outboxentry"))
    client = Client()
    client.force_login(clerk)
    release(client, entry, django_capture_on_commit_callbacks)
    assert consumer.requests == []
    entry.refresh_from_db()
    assert entry.set_aside_at is not None
