"""The page of what an endpoint lacks: for whoever may see endpoints; recovered by whoever may change them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import missed_url, page_url, verb_url
from webhooks_app.admin import missed_page
from webhooks_app.models import Delivery, Endpoint, EndpointState, Event, Job, Tenant

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def missed_event(age: timedelta = HOUR, **values: Any) -> Event:
    moment = timezone.now() - age
    return rows.event(**{"occurred_at": moment, "recorded_at": moment, "fanned_out_at": moment, **values})


def died(row: Endpoint, age: timedelta = HOUR, **values: Any) -> Delivery:
    about = missed_event(age)
    values = {"state": "exhausted", "last_error": "timeout", "finished_at": timezone.now(), **values}
    return rows.delivery(row, about, created_at=about.recorded_at, occurred_at=about.occurred_at, **values)


def text(client: Client, url: str, **query: Any) -> str:
    answer = client.get(url, query)
    assert answer.status_code == 200
    return answer.content.decode()


def test_it_lists_what_died_and_what_never_was(boss: Client) -> None:
    row = rows.endpoint()
    dead, never = died(row), missed_event()
    arrived = died(row, first_delivered_at=timezone.now(), state="delivered")
    page = text(boss, missed_url(row.pk))
    for told in (
        dead.event.public_id,
        f'<a href="{page_url("delivery", dead.pk)}">exhausted</a>',
        "timeout",
        never.public_id,
        "never had it",
        f"{never.occurred_at:%Y-%m-%d %H:%M:%S}",
    ):
        assert told in page, told
    assert arrived.event.public_id not in page
    assert f'href="{verb_url(row.pk, "recover")}"' in page
    assert f'href="{missed_url(row.pk)}"' in text(boss, page_url("endpoint", row.pk))


def test_pages_are_complete_and_do_not_overlap(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_page, "PAGE_SIZE", 3)
    row = rows.endpoint()
    made = [missed_event(age=number * HOUR).public_id for number in range(1, 9)]
    seen, query = [], f"since={(timezone.now() - 9 * HOUR).strftime('%Y-%m-%d+%H:%M')}"
    while query:
        answer = boss.get(f"{missed_url(row.pk)}?{query}")
        seen.append([each for each in made if each in answer.content.decode()])
        query = answer.context["following"]
        assert query is None or "since=" in query
    assert [len(page) for page in seen] == [3, 3, 2]
    assert [each for page in seen for each in page] == made


def test_a_window_is_shown_and_goes_on_to_the_recovery(boss: Client) -> None:
    row = rows.endpoint()
    old, new = missed_event(5 * HOUR), missed_event(HOUR)
    until = (timezone.now() - 3 * HOUR).strftime("%Y-%m-%d %H:%M:%S")
    answer = boss.get(missed_url(row.pk), {"until": until})
    page = answer.content.decode()
    assert (old.public_id in page, new.public_id in page) == (True, False)
    assert answer.context["window"].startswith("until=20")
    assert f"{verb_url(row.pk, 'recover')}?{answer.context['window']}" in page


def test_nothing_missed_and_an_empty_page_with_older_ones(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rows.endpoint()
    assert "It lacks nothing." in text(boss, missed_url(row.pk))
    monkeypatch.setattr("webhooks_app.actions.missed.STRETCH", 1)
    monkeypatch.setattr("webhooks_app.actions.missed.STRETCHES", 1)
    missed_event(2 * HOUR)
    died(row, state="delivered", first_delivered_at=timezone.now())
    page = text(boss, missed_url(row.pk))
    assert "there are older ones" in page
    assert ">Older</a>" in page


def test_what_is_past_its_retention_is_not_offered(boss: Client) -> None:
    Tenant.objects.create(id="acme", retention_days=2)
    row = rows.endpoint(tenant_id=None)
    gone, kept = missed_event(49 * HOUR), missed_event(47 * HOUR)
    page = text(boss, missed_url(row.pk))
    assert (gone.public_id in page, kept.public_id in page) == (False, True)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ({"since": "yesterday"}, "Enter a valid date/time."),
        ({"since": "2026-10-02 00:00", "until": "2026-10-01 00:00"}, "must be later than since"),
        ({"cursor": "<script>alert(1)</script>"}, "must be the cursor of a page before"),
        ({"cursor": "9" * 18 + "." + "9" * 18}, "must be the cursor of a page before"),
        ({"since": "\x00"}, "Enter a valid date/time."),
    ],
)
def test_a_strange_question_is_answered_with_what_is_wrong(boss: Client, query: Any, fault: str) -> None:
    row = rows.endpoint()
    lacking = missed_event()
    page = text(boss, missed_url(row.pk), **query)
    assert fault in page
    assert lacking.public_id not in page
    assert "<script>alert" not in page


def test_strangers_text_is_escaped(boss: Client) -> None:
    tenant = '<img src=x onerror="alert(1)">\u202e'
    row = rows.endpoint(tenant_id=None)
    missed_event(tenant_id=tenant)
    page = text(boss, missed_url(row.pk)) + text(
        boss, missed_url(row.pk), since='"><script>alert(2)</script>'
    )
    assert "&lt;img src=x onerror=&quot;alert(1)&quot;&gt;\\u202e" in page
    assert "<img" not in page
    assert "<script>alert" not in page


def test_who_may_only_see_sees_no_button(staff: Callable[..., Client]) -> None:
    row = rows.endpoint()
    missed_event()
    page = text(staff("view_endpoint"), missed_url(row.pk))
    assert "never had it" in page
    assert verb_url(row.pk, "recover") not in page


def test_who_may_not_see_endpoints_sees_none_of_it(staff: Callable[..., Client]) -> None:
    row = rows.endpoint()
    client = staff("view_delivery", "view_event")
    assert client.get(missed_url(row.pk)).status_code == 403
    assert Client().get(missed_url(row.pk)).status_code == 302


def test_it_changes_nothing_and_a_deleted_endpoint_has_none(boss: Client) -> None:
    row = rows.endpoint()
    died(row)
    before = (list(Delivery.objects.values()), list(EndpointState.objects.values()))
    assert "exhausted" in boss.post(missed_url(row.pk)).content.decode()
    assert (list(Delivery.objects.values()), list(EndpointState.objects.values())) == before
    assert not Job.objects.exists()
    Endpoint.objects.update(deleted_at=timezone.now())
    assert "there is no such webhook" in text(boss, missed_url(row.pk))
    assert missed_url(row.pk) not in text(boss, page_url("endpoint", row.pk))
    assert boss.get(missed_url(10**9)).status_code == 404


def test_a_page_costs_the_same_for_one_event_and_for_many(
    boss: Client, django_assert_max_num_queries: Any
) -> None:
    row = rows.endpoint()
    url = missed_url(row.pk)
    for _ in range(20):
        died(row)
        missed_event()
    boss.get(url)
    with django_assert_max_num_queries(9):
        boss.get(url)
