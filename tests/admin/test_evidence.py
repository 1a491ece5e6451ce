"""Evidence: read-only, complete, and strangers' text shown as text (B105)."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import list_url, page_url
from webhooks_app.models import AuditEntry, Delivery, Event

pytestmark = pytest.mark.django_db
SCRIPT = "<img src=x onerror=alert(1)>"
BREAKOUT = '"><script>alert(2)</script>'
EVIDENCE = ["event", "delivery", "attempt", "auditentry", "outboxentry"]


def evidence() -> dict[str, Any]:
    """Return one row of each kind, all of them full of markup."""
    about = rows.event(
        type=SCRIPT, subject=BREAKOUT, body=f'{{"data":"{SCRIPT}"}}'.encode(), tenant_id=SCRIPT
    )
    job = rows.delivery(rows.endpoint(description=BREAKOUT), about)
    seen = rows.attempt(
        job,
        reply_body=SCRIPT.encode(),
        reply_headers=[["Server", BREAKOUT]],
        event_type=SCRIPT,
        detail=BREAKOUT,
        url=f"https://{BREAKOUT}/",
    )
    audit = AuditEntry.objects.latest("id")
    AuditEntry.objects.filter(pk=audit.pk).update(
        details={SCRIPT: BREAKOUT}, tenant_id=SCRIPT, actor_id=BREAKOUT
    )
    entry = rows.entry(type=SCRIPT, body=SCRIPT.encode(), tenant_id=BREAKOUT)
    return {"event": about, "delivery": job, "attempt": seen, "auditentry": audit, "outboxentry": entry}


@pytest.mark.parametrize("model", [*EVIDENCE, "endpoint"])
def test_markup_of_strangers_is_shown_as_text(boss: Client, model: str) -> None:
    made = evidence()
    pk = made[model].pk if model in made else made["delivery"].endpoint_id
    shown = boss.get(page_url(model, pk)).content.decode()
    for html in (shown, boss.get(list_url(model)).content.decode()):
        assert SCRIPT not in html
        assert BREAKOUT not in html
        assert "<script>alert" not in html
    assert "&lt;" in shown


def test_a_reply_is_shown_whole_with_odd_bytes_made_visible(boss: Client) -> None:
    body = b"caf\xc3\xa9 \xff\x00 \xe2\x80\xae gpj.exe\nsecond line"
    seen = rows.attempt(
        rows.delivery(rows.endpoint()), reply_body=body, reply_headers=[["X-A", "1"], ["X-A", "2"]]
    )
    html = boss.get(page_url("attempt", seen.pk)).content.decode()
    assert "café \ufffd\\x00 \\u202e gpj.exe\nsecond line" in html
    assert "X-A: 1\nX-A: 2" in html
    assert "\u202e" not in html


def test_an_events_page_shows_the_exact_body(boss: Client) -> None:
    about = rows.event(body='{"n":"ü"}'.encode())
    assert "{&quot;n&quot;:&quot;ü&quot;}" in boss.get(page_url("event", about.pk)).content.decode()


@pytest.mark.parametrize("model", EVIDENCE)
def test_nobody_adds_changes_or_deletes_evidence(boss: Client, model: str) -> None:
    row = evidence()[model]
    assert boss.post(page_url(model, row.pk), {"state": "delivered"}).status_code == 403
    assert boss.get(f"/admin/webhooks_app/{model}/add/").status_code == 403
    assert (
        boss.post(reverse(f"admin:webhooks_app_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code
        == 403
    )
    sent = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    boss.post(list_url(model), sent)
    assert type(row).objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize("model", EVIDENCE)
def test_a_page_costs_a_few_queries(boss: Client, model: str, django_assert_max_num_queries: Any) -> None:
    row = evidence()[model]
    with django_assert_max_num_queries(6):
        assert boss.get(page_url(model, row.pk)).status_code == 200


def test_lists_do_not_fetch_bodies(boss: Client, django_assert_max_num_queries: Any) -> None:
    evidence()
    for model, columns in {
        "attempt": ("reply_body", "reply_headers"),
        "event": ("body",),
        "outboxentry": ("body",),
    }.items():
        with django_assert_max_num_queries(10) as captured:
            boss.get(list_url(model))
        read = " ".join(each["sql"] for each in captured.captured_queries)
        assert not [name for name in columns if f'"{name}"' in read]


def test_selected_deliveries_are_sent_again(boss: Client) -> None:
    endpoint = rows.endpoint()
    jobs = [rows.delivery(endpoint, rows.event(), state="exhausted", finished_at=rows.NOW) for _ in range(2)]
    Event.objects.update(occurred_at=timezone.now(), recorded_at=timezone.now())
    sent = {"action": "send_again", "_selected_action": [job.pk for job in jobs]}
    answer = boss.post(list_url("delivery"), sent, follow=True)
    assert f"Endpoint {endpoint.public_id}: 2 queued." in answer.content.decode()
    assert list(Delivery.objects.values_list("state", flat=True)) == ["pending", "pending"]
    assert AuditEntry.objects.latest("id").action == "webhook.replayed"


def test_an_endpoint_that_cannot_receive_is_told(boss: Client) -> None:
    endpoint = rows.endpoint()
    job = rows.delivery(endpoint, state="exhausted")
    endpoint.state.__class__.objects.update(enabled=False)
    answer = boss.post(
        list_url("delivery"), {"action": "send_again", "_selected_action": [job.pk]}, follow=True
    )
    assert "disabled" in answer.content.decode()
    job.refresh_from_db()
    assert job.state == "exhausted"


def test_sending_again_needs_the_right_to_change_endpoints(staff: Any) -> None:
    job = rows.delivery(rows.endpoint(), state="exhausted")
    client = staff("view_delivery")
    client.post(list_url("delivery"), {"action": "send_again", "_selected_action": [job.pk]})
    job.refresh_from_db()
    assert job.state == "exhausted"
