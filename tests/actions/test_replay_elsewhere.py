"""Replay to another endpoint, at an open breaker, into lanes, and of what somebody is sending."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event, tenant
from webhooks_app.actions import replay as replay_module
from webhooks_app.actions.disable import disable
from webhooks_app.actions.replay import replay
from webhooks_app.core.states import DELIVERED, EXHAUSTED, PENDING
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound
from webhooks_app.models import AuditEntry, Delivery, Endpoint, EndpointState

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
OPEN, HALF_OPEN = EndpointState.Breaker.OPEN, EndpointState.Breaker.HALF_OPEN


def by_id(endpoint: Endpoint, *events, actor=OPERATOR, **values) -> int:
    return replay(actor, endpoint, event_ids=[event.public_id for event in events], **values)


def ordered(ordering: str, **values) -> Endpoint:
    row = make_endpoint(**values)
    Endpoint.objects.filter(pk=row.pk).update(ordering=ordering)
    return row


def test_another_endpoint_gets_the_events():
    old, new, events = make_endpoint(), make_endpoint(), [make_event() for _ in range(3)]
    for event in events:
        make_delivery(old, event, state=DELIVERED)
    before = list(Delivery.objects.filter(endpoint=old).values())
    assert by_id(old, *events, to=new, actor=tenant()) == 3
    made = Delivery.objects.filter(endpoint=new, state=PENDING)
    assert set(made.values_list("event_id", flat=True)) == {event.pk for event in events}
    assert list(Delivery.objects.filter(endpoint=old).values()) == before
    entry = AuditEntry.objects.latest("id")
    assert (entry.target_id, entry.details["from"]) == (new.public_id, old.public_id)


def test_the_other_endpoints_scope_and_filters_count():
    old = make_endpoint(events=["order.*"])
    mine, theirs, invoice = make_event(), make_event(tenant_id="other"), make_event(type="invoice.sent")
    assert by_id(old, mine, theirs, invoice, to=make_endpoint(events=["invoice.*"])) == 1
    assert by_id(old, mine, theirs, to=make_endpoint(tenant_id="other")) == 1


def test_a_status_looks_at_the_first_endpoints_deliveries():
    old, new = make_endpoint(), make_endpoint()
    make_delivery(old, state=EXHAUSTED, attempts=13, last_error="timeout")
    make_delivery(old, state=DELIVERED)
    make_delivery(new, state=EXHAUSTED, attempts=13)
    since = timezone.now() - DAY
    assert replay(OPERATOR, old, since=since, status="dead", to=new) == 1
    assert Delivery.objects.filter(endpoint=new, state=PENDING).count() == 1


def test_the_other_endpoint_must_be_visible_alive_and_of_the_same_environment():
    old, event = make_endpoint(), make_event()
    with pytest.raises(NotFound) as caught:
        by_id(old, event, to=make_endpoint(tenant_id="other"), actor=tenant())
    assert caught.value.code == "webhook_not_found"
    with pytest.raises(NotFound):
        by_id(make_endpoint(tenant_id="other"), event, to=old, actor=tenant())
    with pytest.raises(InvalidRequest) as refused:
        by_id(old, event, to=make_endpoint(environment="test"))
    assert [path for path, _ in refused.value.errors] == ["to"]
    off = disable(OPERATOR, make_endpoint())
    with pytest.raises(Conflict) as closed:
        by_id(old, event, to=off)
    assert closed.value.code == "webhook_disabled"
    assert by_id(off, event, to=old) == 1


@pytest.mark.parametrize("breaker", [OPEN, HALF_OPEN])
@pytest.mark.parametrize(("policy", "queued"), [("exponential", None), ("strict", 1), ("standard", 1)])
def test_an_open_breaker_refuses_or_holds_as_the_policy_says(policy, queued, breaker):
    row, event = make_endpoint(policy=policy), make_event()
    EndpointState.objects.filter(pk=row.pk).update(breaker=breaker)
    if queued:
        assert by_id(row, event) == queued
        return
    with pytest.raises(Conflict) as caught:
        by_id(row, event)
    assert caught.value.code == "breaker_open"
    assert not Delivery.objects.exists()


def test_one_delivery_that_is_being_sent_is_a_conflict_and_several_are_skipped():
    row = make_endpoint()
    one, two = make_delivery(row, **leased()), make_delivery(row, state=EXHAUSTED, **leased())
    for sending in (one, two):
        with pytest.raises(Conflict) as caught:
            by_id(row, sending.event)
        assert caught.value.code == "delivery_in_flight"
    assert by_id(row, one.event, two.event) == 0
    assert Delivery.objects.get(pk=two.pk).state == EXHAUSTED


def test_many_go_behind_the_live_traffic(monkeypatch):
    monkeypatch.setattr(replay_module, "FEW", 2)
    row, events = make_endpoint(), [make_event() for _ in range(3)]
    assert by_id(row, *events) == 3
    assert set(Delivery.objects.values_list("priority", flat=True)) == {Delivery.Priority.BULK}


def test_lanes_of_a_strictly_ordered_endpoint():
    row = ordered("fifo")
    events = [make_event() for _ in range(3)]
    make_delivery(row, events[1], state=EXHAUSTED, priority=Delivery.Priority.LIVE)
    assert by_id(row, *events) == 3
    rows = Delivery.objects.order_by("position")
    assert [each.event_id for each in rows] == [event.pk for event in events]
    assert {(each.lane, each.priority) for each in rows} == {("", Delivery.Priority.ORDERED)}


def test_lanes_of_owners_and_the_events_without_one():
    row = ordered("subject")
    owned = [make_event(owner_kind="order", owner_id=owner) for owner in ("1", "2", "1")]
    loose = make_event()
    assert by_id(row, *owned, loose) == 4
    lanes = dict(Delivery.objects.values_list("event_id", "lane"))
    assert lanes[owned[0].pk] == lanes[owned[2].pk] != lanes[owned[1].pk]
    assert lanes[loose.pk] is None
    assert Delivery.objects.get(event=loose).priority == Delivery.Priority.RETRY
    assert Delivery.objects.get(event=owned[0]).priority == Delivery.Priority.ORDERED


def test_a_lane_whose_ordering_was_given_up_is_left():
    row = make_endpoint()
    old = make_delivery(row, state=EXHAUSTED, lane="", priority=Delivery.Priority.ORDERED)
    assert by_id(row, old.event) == 1
    old.refresh_from_db()
    assert (old.lane, old.priority) == (None, Delivery.Priority.RETRY)


def test_what_is_parked_behind_a_head_stays_there_and_the_head_is_due():
    row = ordered("subject")
    events = [make_event(owner_kind="order", owner_id="1") for _ in range(2)]
    values = {"lane": "-5:order1:1", "priority": Delivery.Priority.ORDERED}
    head = make_delivery(
        row, events[0], position=1, step=3, attempts=3, due_at=timezone.now() + DAY, **values
    )
    parked = make_delivery(row, events[1], position=2, **values)
    Delivery.objects.filter(pk=parked.pk).update(due_at=None)
    assert by_id(row, *events) == 2
    head.refresh_from_db()
    parked.refresh_from_db()
    assert head.due_at <= timezone.now()
    assert (head.position, parked.position, parked.due_at) == (1, 2, None)
