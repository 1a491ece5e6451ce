"""What is open at an endpoint, how long it waits, whether somebody sends."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import leased, make_delivery, make_endpoint, make_event
from webhooks_app.models import Delivery, Endpoint
from webhooks_app.ops import backlog as asked
from webhooks_app.ops.backlog import Backlog, backlog, backlog_seconds, is_delivering

pytestmark = pytest.mark.django_db

NOW = timezone.now()
ALIAS = "default"


@pytest.fixture
def endpoint() -> Endpoint:
    return make_endpoint()


def ago(**amount: float):
    return NOW - timedelta(**amount)


def test_nothing_is_open(endpoint):
    make_delivery(endpoint, state="delivered")
    make_delivery(endpoint, state="exhausted")
    make_delivery(make_endpoint(tenant_id="other"))
    assert backlog(ALIAS, endpoint.pk, NOW) == Backlog(0, more=False, seconds=0.0)


def test_everything_open_is_counted_and_the_longest_due_one_says_how_long(endpoint):
    make_delivery(endpoint, due_at=ago(seconds=5))
    make_delivery(endpoint, due_at=ago(seconds=90), priority=Delivery.Priority.RETRY)
    make_delivery(endpoint, due_at=NOW + timedelta(hours=1), priority=Delivery.Priority.RETRY)
    make_delivery(endpoint, due_at=None, priority=Delivery.Priority.ORDERED, lane="a")
    assert backlog(ALIAS, endpoint.pk, NOW) == Backlog(4, more=False, seconds=90.0)


@pytest.mark.parametrize("priority", Delivery.Priority.values)
def test_whatever_its_priority(endpoint, priority):
    make_delivery(endpoint, due_at=ago(seconds=30), priority=priority)
    make_delivery(endpoint, due_at=ago(seconds=20), priority=priority)
    assert backlog_seconds(ALIAS, endpoint.pk, NOW) == 30.0


def test_what_is_due_later_waits_for_nobody(endpoint):
    make_delivery(endpoint, due_at=NOW + timedelta(seconds=1))
    assert backlog_seconds(ALIAS, endpoint.pk, NOW) == 0.0


@pytest.mark.parametrize(("rows", "expected"), [(2, (2, False)), (3, (3, False)), (4, (3, True))])
def test_counting_ends_somewhere(endpoint, monkeypatch, rows, expected):
    monkeypatch.setattr(asked, "MAX_COUNTED", 3)
    event = make_event()
    for _ in range(rows):
        make_delivery(endpoint, event)
        event = make_event()
    found = backlog(ALIAS, endpoint.pk, NOW)
    assert (found.deliveries, found.more) == expected


def test_somebody_sends_as_long_as_a_claim_lives(endpoint):
    assert not is_delivering(ALIAS, endpoint.pk, NOW)
    job = make_delivery(endpoint, **leased(ago(seconds=1)))
    assert not is_delivering(ALIAS, endpoint.pk, NOW)
    Delivery.objects.filter(pk=job.pk).update(lease_until=NOW)
    assert is_delivering(ALIAS, endpoint.pk, NOW)
    assert not is_delivering(ALIAS, endpoint.pk + 1, NOW)
