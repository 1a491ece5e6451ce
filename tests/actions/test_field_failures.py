"""What went wrong for others when they recovered: floods, requests that hang, things no longer there."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event, together
from tests.actions.jobs import finished
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.prune import prune
from webhooks_app.actions.recover import recover
from webhooks_app.actions.replay import replay
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.core.states import EXHAUSTED, PENDING
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound
from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointState, Event, OutboxEntry
from webhooks_app.pipeline import inline

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def many_events(number: int, **values: Any) -> list[Event]:
    """Events with their bodies, made in a moment."""
    moment = timezone.now() - timedelta(hours=1)
    common = {"type": "order.paid", "tenant_id": "acme", "environment": "live", "occurred_at": moment}
    common |= {"recorded_at": moment, "fanned_out_at": moment, "body": b"{}", **values}
    rows = [Event(public_id=f"evt_{place}", **common) for place in range(number)]
    return Event.objects.bulk_create(rows)


def died(endpoint: Endpoint, events: list[Event]) -> None:
    values = {"state": EXHAUSTED, "attempts": 13, "last_error": "timeout", "finished_at": timezone.now()}
    moments = {"occurred_at": events[0].occurred_at, "created_at": events[0].recorded_at}
    Delivery.objects.bulk_create(
        Delivery(endpoint=endpoint, event=event, position=1, **values, **moments) for event in events
    )


def test_recovery_does_not_flood_the_receiver_that_just_came_back(endpoint, receiver):
    """B117"""
    Endpoint.objects.filter(pk=endpoint.pk).update(
        rate_limit={"per_second": 20, "burst": 20}, policy="strict", created_at=timezone.now() - 20 * DAY
    )
    EndpointState.objects.update(window=100)
    events = many_events(300)
    died(endpoint, events)
    finished(recover(OPERATOR, endpoint, since=timezone.now() - DAY))
    live = make_delivery(endpoint, make_event())
    started = time.monotonic()
    inline.deliver([endpoint.pk])
    allowed = 20 + 20 * (time.monotonic() - started) + 1
    assert 10 <= len(receiver.requests) <= allowed
    live.refresh_from_db()
    assert live.state == "delivered"
    assert set(Attempt.objects.values_list("status", flat=True)) == {"succeeded"}
    left = Delivery.objects.filter(state=PENDING)
    assert left.count() == 301 - len(receiver.requests)
    assert set(left.values_list("priority", "attempts")) == {(Delivery.Priority.BULK, 13)}
    assert EndpointState.objects.get().breaker == "closed"


def test_a_thousand_are_replayed_at_once_and_the_second_press_does_not_double():
    """B118"""
    row = make_endpoint()
    many_events(1_000)
    started = time.monotonic()
    assert replay(OPERATOR, row, since=timezone.now() - DAY) == 1_000
    assert time.monotonic() - started < 5  # a second on a machine that does nothing else
    assert replay(OPERATOR, row, since=timezone.now() - DAY) == 1_000
    assert Delivery.objects.count() == 1_000
    make_event()
    with pytest.raises(InvalidRequest, match="narrower window"):
        replay(OPERATOR, row, since=timezone.now() - DAY)


def past_retention(endpoint: Endpoint) -> Event:
    return make_event(age=31 * DAY)


def expired(endpoint: Endpoint) -> Event:
    return make_event(expires_at=timezone.now() - DAY)


def no_longer_wanted(endpoint: Endpoint) -> Event:
    return make_delivery(endpoint, make_event(type="invoice.sent"), state=EXHAUSTED).event


def a_test(endpoint: Endpoint) -> Event:
    return make_event(type="webhook.test")


@pytest.mark.parametrize("make", [past_retention, expired, no_longer_wanted, a_test])
def test_what_may_not_leave_any_more_is_skipped(make: Callable[[Endpoint], Event]):
    """B121"""
    row = make_endpoint(events=["order.*"])
    event = make(row)
    assert replay(OPERATOR, row, event_ids=[event.public_id]) == 0
    finished(recover(OPERATOR, row, since=timezone.now() - 60 * DAY))
    finished(bulk_retry(OPERATOR))
    assert not Delivery.objects.filter(state=PENDING).exists()


def test_an_erased_event_ends_as_unavailable_and_nothing_is_sent(endpoint, receiver):
    """B121"""
    event = make_event()
    OutboxEntry.objects.all().delete()
    assert replay(OPERATOR, endpoint, event_ids=[event.public_id]) == 1
    inline.deliver([endpoint.pk])
    row = Delivery.objects.get()
    assert (row.state != PENDING, row.last_error) == (True, "event_unavailable")
    assert not receiver.requests


def test_a_disabled_endpoint_refuses_every_way_back():
    """B121"""
    row = make_endpoint()
    event = make_delivery(row, state=EXHAUSTED).event
    disable(OPERATOR, row)
    for way in (
        lambda: replay(OPERATOR, row, event_ids=[event.public_id]),
        lambda: recover(OPERATOR, row, since=timezone.now() - DAY),
    ):
        with pytest.raises(Conflict) as caught:
            way()
        assert caught.value.code == "webhook_disabled"


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_an_endpoint_that_is_deleted_meanwhile_is_left_with_nothing_open():
    for _ in range(5):
        row, events = make_endpoint(), [make_event() for _ in range(30)]
        for event in events[::2]:
            make_delivery(row, event, state=EXHAUSTED)
        Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 20 * DAY)
        recover(OPERATOR, row, since=timezone.now() - DAY)
        ids = [event.public_id for event in events]
        results = together(
            lambda row=row, ids=ids: replay(OPERATOR, row, event_ids=ids),
            run_jobs,
            lambda row=row: delete_endpoint(OPERATOR, row),
        )
        assert results[0] == 30 or isinstance(results[0], NotFound)
        assert results[1:] == [False, None]
        assert not Delivery.objects.filter(endpoint=row, state=PENDING).exists()


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_everything_at_once_deadlocks_nobody():
    """B133, B126"""
    rows = [make_endpoint() for _ in range(3)]
    for row in rows:
        Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 50 * DAY)
        for age in (1, 1, 1, 40, 40):
            make_delivery(
                row, make_event(age=age * DAY), state=EXHAUSTED, finished_at=timezone.now() - age * DAY
            )
        make_delivery(row, **leased())
    since = timezone.now() - 10 * DAY
    for row in rows:
        recover(OPERATOR, row, since=since)
    bulk_retry(OPERATOR)
    results = together(
        run_jobs,
        run_jobs,
        prune,
        *[lambda row=row: replay(OPERATOR, row, since=since) for row in rows],
        *[lambda row=row: replay(OPERATOR, row, since=since, webhook_id="new") for row in rows],
    )
    assert not [each for each in results if isinstance(each, Exception)]
    assert not Delivery.objects.filter(state=EXHAUSTED).exists()
