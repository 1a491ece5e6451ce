"""The bulk retry of the admin: the list's filter, counted, confirmed, and begun as a job."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import fields_of, list_url, listed, page_url, retry_url
from webhooks_app.actions import jobs
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.models import AuditEntry, Delivery, Endpoint, EndpointState, Job

pytestmark = pytest.mark.django_db

CONFIRMED = {"confirmed": "yes"}


def dead(row: Endpoint, **values: Any) -> Delivery:
    moment = timezone.now() - timedelta(hours=1)
    about = rows.event(occurred_at=moment, recorded_at=moment, fanned_out_at=moment)
    values = {"state": "exhausted", "last_error": "timeout", "finished_at": timezone.now(), **values}
    return rows.delivery(row, about, created_at=moment, occurred_at=moment, **values)


def said(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


def text(answer: Any) -> str:
    assert answer.status_code == 200
    content: str = answer.content.decode()
    return content


def test_the_filter_of_the_list_is_counted_confirmed_and_begun(boss: Client) -> None:
    mine, other = rows.endpoint(), rows.endpoint()
    wanted = [dead(mine), dead(mine)]
    left = [dead(mine, last_error="tls"), dead(mine, state="failed_permanent"), dead(other)]
    query = {"q": mine.public_id, "state": "exhausted", "last_error": "timeout"}
    assert listed(boss, "delivery", **query) == [each.pk for each in reversed(wanted)]
    page = text(boss.get(list_url("delivery"), query))
    assert f'href="{retry_url()}?' in page
    form = text(boss.get(retry_url(), query))
    assert "at most 1,000,000" in form
    sent = fields_of(form)
    assert (sent["webhook_id"], sent["status"], sent["error"]) == (mine.public_id, "exhausted", "timeout")
    counted = text(boss.post(retry_url(), sent))
    assert "2 deliveries are selected." in counted
    one = text(boss.post(retry_url(), {**sent, "webhook_id": other.public_id}))
    assert "1 delivery is selected." in one
    assert not Job.objects.exists()
    answer = boss.post(retry_url(), fields_of(counted), follow=True)
    job = Job.objects.get()
    link = f'<a href="{page_url("job", job.pk)}">{job.public_id}</a>'
    assert said(answer) == [f"2 to retry; see job {link}."]
    assert AuditEntry.objects.latest("id").action == "deliveries.retry_begun"
    run_jobs()
    states = dict(Delivery.objects.values_list("pk", "state"))
    assert {states[each.pk] for each in wanted} == {"pending"}
    assert all(states[each.pk] == each.state for each in left)


def test_the_list_leads_there_with_its_whole_filter(boss: Client) -> None:
    mine = rows.endpoint()
    query = {"q": mine.public_id, "state": "exhausted", "last_error": "timeout"}
    page = text(boss.get(list_url("delivery"), query))
    begin = page.index(f'href="{retry_url()}?') + len('href="')
    url = page[begin : page.index('"', begin)].replace("&amp;", "&")
    initial = boss.get(url).context["form"].initial
    assert initial == {"webhook_id": mine.public_id, "status": "exhausted", "error": "timeout"}


def test_nothing_selected_has_nothing_to_confirm(boss: Client) -> None:
    dead(rows.endpoint(), state="cancelled")
    page = text(boss.post(retry_url(), {}))
    assert "No delivery is selected." in page
    assert 'name="confirmed"' not in page


@pytest.mark.parametrize(
    ("query", "initial", "warned"),
    [
        ({}, {}, ""),
        ({"state": "pending"}, {"status": "failed"}, ""),
        ({"state": "cancelled"}, {"status": "cancelled"}, ""),
        ({"state": "delivered"}, {}, "Delivered ones are not retried"),
        ({"q": "evt_1", "last_error": "tls"}, {"error": "tls"}, "no filter here"),
        ({"state": "'; --", "last_error": "<b>", "q": "\x00"}, {}, "no filter here"),
    ],
)
def test_what_the_list_shows_is_taken_over_as_far_as_it_can_be(
    boss: Client, query: dict[str, str], initial: dict[str, str], warned: str
) -> None:
    answer = boss.get(retry_url(), query)
    assert answer.context["form"].initial == initial
    lines = said(answer)
    assert (len(lines), warned in "".join(lines)) == (bool(warned), True)


@pytest.mark.parametrize("confirmed", [{}, CONFIRMED])
@pytest.mark.parametrize(
    ("sent", "field", "fault"),
    [
        ({"webhook_id": "whk_" + "0" * 26}, "__all__", "there is no such webhook"),
        ({"webhook_id": "<b>"}, "__all__", "there is no such webhook"),
        ({"status": "alive"}, "status", "Select a valid choice"),
        ({"error": "gremlins"}, "error", "Select a valid choice"),
        ({"event_type": "<b>"}, "event_type", "must be an event type"),
        ({"since": "2026-10-02 00:00", "until": "2026-10-01 00:00"}, "until", "must be later than since"),
        ({"since": "soon"}, "since", "Enter a valid date/time."),
    ],
)
def test_a_refusal_is_told_at_its_field(
    boss: Client, sent: dict[str, str], field: str, fault: str, confirmed: dict[str, str]
) -> None:
    dead(rows.endpoint())
    answer = boss.post(retry_url(), {**sent, **confirmed})
    assert fault in str(answer.context["form"].errors[field])
    assert fault in text(answer)
    assert "<b>" not in text(answer)
    assert not Job.objects.exists()


def test_a_disabled_endpoint_and_too_many_are_refused(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows.endpoint()
    dead(row)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "MAX_TOTAL", 0)
        assert "choose less" in text(boss.post(retry_url(), {}))
    EndpointState.objects.update(enabled=False)
    assert "the webhook is disabled. Enable it" in text(boss.post(retry_url(), {"webhook_id": row.public_id}))


@pytest.mark.parametrize("permissions", [(), ("view_delivery",), ("view_delivery", "view_endpoint")])
def test_who_may_not_change_endpoints_may_not_retry(
    staff: Callable[..., Client], permissions: tuple[str, ...]
) -> None:
    dead(rows.endpoint())
    client = staff(*permissions)
    for answer in (client.get(retry_url()), client.post(retry_url(), CONFIRMED)):
        assert answer.status_code == 403
    assert not Job.objects.exists()
    if "view_delivery" in permissions:
        assert retry_url() not in text(client.get(list_url("delivery")))


def test_it_is_done_by_a_post_with_the_token_alone() -> None:
    dead(rows.endpoint())
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("boss", "", "x"))
    assert client.post(retry_url(), CONFIRMED).status_code == 403
    assert client.get(retry_url(), CONFIRMED).status_code == 200
    assert not Job.objects.exists()
