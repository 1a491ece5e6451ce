"""What staff do to one endpoint: asked for by GET, done by POST, told afterwards."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import list_url, page_url, verb_url
from webhooks_app.models import Attempt, AuditEntry, Delivery, EndpointState

pytestmark = pytest.mark.django_db


def said(answer: Any) -> list[str]:
    """Return the messages of a page."""
    return [str(message) for message in answer.context["messages"]]


def test_a_test_is_sent_and_its_outcome_told(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = verb_url(endpoint.pk, "test")
    assert boss.get(url).status_code == 200
    assert not Attempt.objects.exists()
    answer = boss.post(url, follow=True)
    # Nobody listens on this machine's HTTPS port.
    [attempt] = Attempt.objects.all()
    assert (attempt.trigger, attempt.error) == ("test", "connect")
    assert said(answer) == [f"Test failed: no answer in {attempt.duration_ms} ms (connect)."]
    assert LogEntry.objects.get().change_message == "Send a test"


def test_a_few_are_tested_from_the_list(boss: Client) -> None:
    endpoints = [rows.endpoint() for _ in range(6)]
    sent = {"action": "test_selected", "_selected_action": [each.pk for each in endpoints[:2]]}
    assert len(said(boss.post(list_url("endpoint"), sent, follow=True))) == 2
    assert Attempt.objects.count() == 2
    sent["_selected_action"] = [each.pk for each in endpoints]
    assert said(boss.post(list_url("endpoint"), sent, follow=True)) == ["Choose at most 5 endpoints."]
    assert Attempt.objects.count() == 2


def test_a_window_of_events_is_sent_again(boss: Client) -> None:
    endpoint, moment = rows.endpoint(), timezone.now() - timedelta(hours=1)
    about = rows.event(occurred_at=moment, recorded_at=moment)
    job = rows.delivery(endpoint, about, state="exhausted", finished_at=moment)
    url = verb_url(endpoint.pk, "replay")
    sent = {"since": (moment - timedelta(hours=1)).strftime("%Y-%m-%d %H:%M:%S"), "status": "dead"}
    answer = boss.post(url, sent, follow=True)
    assert said(answer) == ["Queued: 1."]
    job.refresh_from_db()
    assert job.state == "pending"
    assert AuditEntry.objects.latest("id").action == "webhook.replayed"


def test_a_refusal_is_told_on_the_page(boss: Client) -> None:
    endpoint = rows.endpoint()
    EndpointState.objects.update(enabled=False)
    answer = boss.post(verb_url(endpoint.pk, "replay"), {"since": "2026-10-01 00:00:00"})
    assert answer.status_code == 200
    assert "the webhook is disabled" in answer.content.decode()
    assert not Delivery.objects.exists()


def test_a_window_needs_a_beginning(boss: Client) -> None:
    answer = boss.post(verb_url(rows.endpoint().pk, "replay"), {"since": "", "until": "soon"})
    assert set(answer.context["form"].errors) == {"since", "until"}


def test_pages_need_the_csrf_token() -> None:
    endpoint = rows.endpoint()
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("boss", "", "x"))
    for url in (verb_url(endpoint.pk, "rotate-secret"), page_url("endpoint", endpoint.pk)):
        assert client.post(url, {"overlap_hours": "0"}).status_code == 403


def test_the_page_leads_to_what_belongs_to_the_endpoint(boss: Client) -> None:
    endpoint = rows.endpoint()
    html = boss.get(page_url("endpoint", endpoint.pk)).content.decode()
    for model in ("delivery", "attempt", "auditentry"):
        assert f'href="{list_url(model)}?q={endpoint.public_id}"' in html
    for verb in ("test", "replay", "rotate-secret"):
        assert f'href="{verb_url(endpoint.pk, verb)}"' in html
