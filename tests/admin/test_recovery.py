"""Recovery in the admin: single deliveries, whole endpoints, and the jobs."""

from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import fields_of, list_url, page_url, verb_url
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.destinations.base import Sent
from webhooks_app.models import AuditEntry, Delivery, EndpointState, Job
from webhooks_app.pipeline import sending

pytestmark = pytest.mark.django_db


def said(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


def job(**fields: Any) -> Delivery:
    moment = timezone.now() - timedelta(hours=1)
    about = rows.event(occurred_at=moment, recorded_at=moment, fanned_out_at=moment)
    return rows.delivery(rows.endpoint(), about, created_at=moment, occurred_at=moment, **fields)


def chosen(action: str, *deliveries: Delivery) -> dict[str, Any]:
    return {"action": action, "_selected_action": [each.pk for each in deliveries]}


def test_a_delivery_is_sent_once(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    result = AttemptResult(http_status=200, duration_ms=7)
    monkeypatch.setattr(sending.https, "send", lambda *_, **__: Sent(result, signature="v1,x"))
    row = job(state="exhausted", finished_at=timezone.now())
    answer = boss.post(list_url("delivery"), chosen("send_once", row), follow=True)
    assert said(answer) == [f"Delivery {row.public_id} sent: succeeded: answered 200 in 7 ms."]
    row.refresh_from_db()
    assert row.state == "delivered"
    many = [job() for _ in range(6)]
    assert "at most 5" in said(boss.post(list_url("delivery"), chosen("send_once", *many), follow=True))[0]


def test_deliveries_are_cancelled_and_refusals_told(boss: Client) -> None:
    waiting, ended = job(due_at=timezone.now()), job(state="exhausted", finished_at=timezone.now())
    answer = boss.post(list_url("delivery"), chosen("cancel_selected", waiting, ended), follow=True)
    assert f"Delivery {waiting.public_id} cancelled." in said(answer)
    assert any("has ended" in line for line in said(answer))
    assert AuditEntry.objects.filter(action="delivery.cancelled").count() == 1


def test_an_endpoint_is_recovered(boss: Client) -> None:
    row = job(state="exhausted", finished_at=timezone.now())
    url = verb_url(row.endpoint_id, "recover")
    since = (timezone.now() - timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    assert boss.get(url, {"since": since}).context["form"]["since"].value() == since
    counted = boss.post(url, {"since": since})
    page = counted.content.decode()
    assert "Selected are 1." in page
    assert f"Since: {since} UTC" in page
    assert not Job.objects.exists()
    answer = boss.post(url, fields_of(page), follow=True)
    made = Job.objects.get()
    link = f'<a href="{page_url("job", made.pk)}">{made.public_id}</a>'
    assert said(answer) == [f"1 to queue; see job {link}."]
    assert link in answer.content.decode()
    run_jobs()
    row.refresh_from_db()
    assert row.state == "pending"
    assert "There is nothing to do." in boss.post(url, {"since": since}).content.decode()
    EndpointState.objects.update(enabled=False)
    for confirmed in ({}, {"confirmed": "yes"}):
        assert "the webhook is disabled" in boss.post(url, {"since": since, **confirmed}).content.decode()
    assert Job.objects.count() == 1


def test_times_are_utc_whatever_the_hosts_zone_is(boss: Client, settings: Any) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    row = job(state="exhausted", finished_at=timezone.now())
    url = verb_url(row.endpoint_id, "recover")
    page = boss.post(url, {"since": "2026-10-01 12:00:00"}).content.decode()
    assert "Since: 2026-10-01 12:00:00 UTC" in page
    boss.post(url, fields_of(page))
    ahead = (timezone.now() + timedelta(minutes=5)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    recent = boss.post(verb_url(row.endpoint_id, "replay"), {"since": ahead}, follow=True)
    assert said(recent)[-1] == "Queued: 0."


def test_open_deliveries_of_an_endpoint_are_cancelled(boss: Client) -> None:
    row = job(due_at=timezone.now())
    answer = boss.post(verb_url(row.endpoint_id, "cancel-open"), follow=True)
    assert said(answer) == ["Cancelled: 1."]
    assert Delivery.objects.get().state == "cancelled"


def test_jobs_are_shown_and_cancelled(boss: Client) -> None:
    made = bulk_retry(rows.OPERATOR)
    assert made.public_id in boss.get(list_url("job")).content.decode()
    assert "bulk_retry" in boss.get(page_url("job", made.pk)).content.decode()
    chosen_jobs = {"action": "cancel_selected", "_selected_action": [made.pk]}
    assert said(boss.post(list_url("job"), chosen_jobs, follow=True)) == [
        f"Job {made.public_id} is cancelled."
    ]
    Job.objects.update(state="succeeded")
    assert "has ended" in said(boss.post(list_url("job"), chosen_jobs, follow=True))[0]


@pytest.mark.parametrize("action", ["send_once", "cancel_selected"])
def test_who_only_reads_changes_nothing(staff: Callable[..., Client], action: str) -> None:
    row = job(due_at=timezone.now())
    staff("view_delivery").post(list_url("delivery"), chosen(action, row))
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("pending", 0)


def test_a_replay_copy_says_what_it_repeats(boss: Client) -> None:
    original = rows.event()
    copy = rows.event(replay_of=original.pk)
    assert original.public_id in boss.get(page_url("event", copy.pk)).content.decode()
    assert "icon-yes" in boss.get(list_url("event"), {"q": copy.public_id}).content.decode()
    original.delete()
    assert boss.get(page_url("event", copy.pk)).status_code == 200
