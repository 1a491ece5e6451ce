"""Missed: what an endpoint lacks, page by page, nothing skipped and nothing twice."""

from datetime import timedelta
from itertools import count

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event, partner, tenant
from webhooks_app.actions import missed as missed_module
from webhooks_app.actions.disable import disable
from webhooks_app.actions.missed import missed
from webhooks_app.core.states import DEAD, DELIVERED, EXHAUSTED, EXPIRED
from webhooks_app.exceptions import InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import Endpoint, Event, Tenant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def old_endpoint(**values) -> Endpoint:
    row = make_endpoint(**values)
    Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 20 * DAY)
    return row


def found(endpoint: Endpoint, actor=OPERATOR, **values) -> list[Event]:
    return [each.event for each in missed(actor, endpoint, **values).rows]


def all_pages(endpoint: Endpoint, **values) -> list[int]:
    keys, cursor = [], None
    for _ in count():
        page = missed(OPERATOR, endpoint, cursor=cursor, **values)
        keys += [each.event.pk for each in page.rows]
        cursor = page.cursor
        if cursor is None:
            return keys
    raise AssertionError


def test_dead_deliveries_and_events_without_any_newest_first():
    row = disable(OPERATOR, old_endpoint())
    never = make_event(age=3 * HOUR)
    died = make_delivery(row, make_event(age=2 * HOUR), state=EXHAUSTED, last_error="timeout")
    make_delivery(row, state=DELIVERED), make_delivery(row)
    page = missed(tenant(), row)
    assert [(each.event.pk, each.delivery and each.delivery.pk) for each in page.rows] == [
        (died.event_id, died.pk),
        (never.pk, None),
    ]
    assert page.cursor is None


@pytest.mark.parametrize("state", sorted(DEAD))
def test_every_death_counts_unless_it_was_delivered_before(state):
    row = old_endpoint()
    make_delivery(row, state=state, first_delivered_at=timezone.now())
    died = make_delivery(row, state=state)
    assert [each.pk for each in found(row)] == [died.event_id]


def test_what_expired_is_shown_and_what_is_past_the_retention_is_not():
    row = old_endpoint()
    Endpoint.objects.update(created_at=timezone.now() - 90 * DAY)
    expired = make_delivery(row, make_event(expires_at=timezone.now() - HOUR), state=EXPIRED)
    make_event(age=30.1 * DAY)
    assert [each.pk for each in found(row)] == [expired.event_id]


def test_what_it_should_not_have_had_is_not_missed():
    row = old_endpoint(events=["order.*"], identity_ids=["a"])
    wanted = make_event(identity_id="a")
    make_event(identity_id="a", tenant_id="other")
    make_event(identity_id="a", type="invoice.sent")
    make_event(identity_id="a", environment="test")
    make_event(identity_id="a", fanned_out_at=None)
    make_event(identity_id="a", replay_of=wanted.pk)
    make_event(identity_id="b")
    make_event(identity_id="a", type="webhook.test")
    assert [each.pk for each in found(row)] == [wanted.pk]


def test_events_from_before_it_was_created_count():
    event = make_event(age=2 * DAY)
    make_event(type="invoice.sent"), make_event(fanned_out_at=None), make_event(age=30.1 * DAY)
    row = make_endpoint(events=["order.*"])
    assert row.created_at > event.recorded_at
    assert [each.pk for each in found(row)] == [event.pk]
    assert found(row, since=timezone.now() - DAY) == []


def test_news_about_itself_is_not_missed():
    row, other = old_endpoint(tenant_id=None), old_endpoint(tenant_id=None)
    news = make_event(type="webhook.disabled", about_endpoint_id=row.pk)
    assert found(row) == []
    assert [each.pk for each in found(other)] == [news.pk]


def test_a_partner_misses_its_tenants_events_and_the_platform_everybodys():
    mine = make_event(partner_id="umbrella", age=2 * HOUR)
    other = make_event(tenant_id="other", age=HOUR)
    assert [each.pk for each in found(old_endpoint(partner_id="umbrella"), partner())] == [mine.pk]
    # The platform's come in the order of their recording.
    assert [each.pk for each in found(old_endpoint(tenant_id=None))] == [other.pk, mine.pk]


def test_the_window_is_of_occurred_at():
    row = old_endpoint()
    _, inside, end = (make_event(age=hours * HOUR) for hours in (30, 20, 10))
    window = {"since": inside.occurred_at, "until": end.occurred_at}
    assert [each.pk for each in found(row, **window)] == [inside.pk]
    platform = old_endpoint(tenant_id=None)
    assert [each.pk for each in found(platform, **window)] == [inside.pk]


@pytest.mark.parametrize("scope", [{}, {"tenant_id": None}])
@pytest.mark.parametrize("stretch", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_hold_every_row_once_also_of_one_moment(scope, stretch, limit, monkeypatch):
    monkeypatch.setattr(missed_module, "STRETCH", stretch)
    monkeypatch.setattr(missed_module, "STRETCHES", 2)
    row, now = old_endpoint(**scope), timezone.now()
    events = []
    for place in range(9):
        event = make_event(occurred_at=now - (place // 4) * HOUR, type="a.b" if place % 3 else "a.c")
        if place in (2, 5):
            make_delivery(row, event, state=DELIVERED)
        else:
            events.append(event)
    key = (lambda each: each.pk) if scope else (lambda each: (each.occurred_at, each.pk))
    expected = [each.pk for each in sorted(events, key=key, reverse=True)]
    assert all_pages(row, limit=limit) == expected


def test_a_stretch_without_any_gives_an_empty_page_that_goes_on(monkeypatch):
    monkeypatch.setattr(missed_module, "STRETCH", 2)
    monkeypatch.setattr(missed_module, "STRETCHES", 1)
    row = old_endpoint()
    oldest = make_event(age=9 * HOUR)
    for hours in range(1, 5):
        make_delivery(row, make_event(age=hours * HOUR), state=DELIVERED)
    page = missed(OPERATOR, row)
    assert page.rows == []
    assert page.cursor is not None
    assert all_pages(row) == [oldest.pk]


@pytest.mark.parametrize(("mine", "others"), [("live", "test"), ("test", "live")])
def test_events_of_the_other_environment_are_not_walked(mine, others, monkeypatch):
    monkeypatch.setattr(missed_module, "STRETCH", 2)
    monkeypatch.setattr(missed_module, "STRETCHES", 1)
    row = old_endpoint(environment=mine)
    event = make_event(environment=mine, age=9 * HOUR)
    for hours in range(1, 5):
        make_event(environment=others, age=hours * HOUR)
    page = missed(OPERATOR, row)
    assert ([each.event.pk for each in page.rows], page.cursor) == ([event.pk], None)


def test_a_search_of_the_platform_ends_behind_its_window(monkeypatch):
    monkeypatch.setattr(missed_module, "STRETCH", 2)
    row = old_endpoint(tenant_id=None)
    for days in (9, 8, 7, 6, 5):
        make_event(age=days * DAY)
    late = make_event(age=HOUR)
    page = missed(OPERATOR, row, since=timezone.now() - DAY)
    assert ([each.event.pk for each in page.rows], page.cursor) == ([late.pk], None)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"since": "yesterday"}, "since"),
        ({"since": timezone.now(), "until": timezone.now() - DAY}, "until"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "1.2.3"}, "cursor"),
        ({"cursor": "999999999999999999.1"}, "cursor"),
    ],
)
def test_refused_requests(values, path):
    with pytest.raises(InvalidRequest) as caught:
        missed(OPERATOR, make_endpoint(), **values)
    assert [each for each, _ in caught.value.errors] == [path]


def test_who_may():
    row = make_endpoint()
    with pytest.raises(NotFound):
        missed(tenant("other"), row)
    with pytest.raises(PermissionDenied):
        missed(tenant(permissions=frozenset({"events:write"})), row)


def test_the_shorter_retention_of_a_tenant_holds_for_its_endpoints():
    Tenant.objects.create(id="acme", retention_days=1)
    row = old_endpoint()
    make_event(age=1.1 * DAY)
    assert found(row) == []
