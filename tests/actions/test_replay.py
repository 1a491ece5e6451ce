"""Replay: which events are meant, and what becomes of their deliveries."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import (
    OPERATOR,
    leased,
    make_delivery,
    make_endpoint,
    make_event,
    partner,
    tenant,
    together,
)
from webhooks_app.actions import replay_selection
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.replay import replay
from webhooks_app.core.states import DELIVERED, ENDED, EXHAUSTED, PENDING
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, Endpoint, Partner, PipelineLock, Tenant

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def by_id(endpoint: Endpoint, *events, actor=OPERATOR) -> int:
    return replay(actor, endpoint, event_ids=[event.public_id for event in events])


def lately(endpoint: Endpoint, **values) -> int:
    return replay(OPERATOR, endpoint, **{"since": timezone.now() - 2 * DAY, **values})


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_ended_delivery_begins_anew(state):
    row = make_endpoint()
    old = make_delivery(row, state=state, attempts=13, step=12, deferrals=2, lapses=1, last_error="timeout")
    assert by_id(row, old.event, actor=tenant()) == 1
    new = Delivery.objects.get()
    assert (new.pk, new.state, new.attempts) == (old.pk, PENDING, 13)
    assert (new.step, new.deferrals, new.lapses, new.priority) == (0, 0, 0, Delivery.Priority.RETRY)
    assert (new.position, new.finished_at) == (old.position, None)
    assert new.due_at <= timezone.now()
    assert new.started_at == new.due_at
    assert new.first_delivered_at == old.first_delivered_at


def test_positions_in_a_lane_are_new_and_in_the_order_of_the_events():
    row = make_endpoint(ordering="fifo", max_in_flight=1)
    events = [make_event() for _ in range(4)]
    for event in reversed(events[1:]):
        make_delivery(row, event, state=EXHAUSTED, lane="", priority=Delivery.Priority.ORDERED)
    PipelineLock.objects.create(name="position", value=7)
    assert by_id(row, *events) == 4
    places = dict(Delivery.objects.values_list("event_id", "position"))
    assert [places[event.pk] for event in events] == [8, 9, 10, 11]
    assert PipelineLock.objects.get(name="position").value == 11


def test_outside_of_lanes_old_deliveries_keep_their_positions_and_new_ones_draw_theirs():
    """The counter stays locked to the commit: a recovery that draws from it holds up every fan-out."""
    row = make_endpoint()
    old = make_delivery(row, state=EXHAUSTED, position=3)
    PipelineLock.objects.create(name="position", value=7)
    assert by_id(row, old.event) == 1
    assert PipelineLock.objects.get(name="position").value == 7
    assert by_id(row, old.event, make_event()) == 2
    assert sorted(Delivery.objects.values_list("position", flat=True)) == [3, 8]


def test_an_event_that_was_never_there_gets_its_first_delivery():
    event = make_event(expires_at=timezone.now() + DAY)
    row = make_endpoint()
    assert by_id(row, event) == 1
    new = Delivery.objects.get()
    assert (new.endpoint_id, new.event_id, new.state, new.attempts) == (row.pk, event.pk, PENDING, 0)
    assert (new.occurred_at, new.expires_at) == (event.occurred_at, event.expires_at)
    assert new.priority == Delivery.Priority.RETRY


def test_an_open_delivery_is_hastened_and_begins_its_schedule_anew():
    row = make_endpoint()
    waiting = make_delivery(row, due_at=timezone.now() + DAY, step=5, attempts=5, position=3)
    assert by_id(row, waiting.event) == 1
    waiting.refresh_from_db()
    assert waiting.due_at <= timezone.now()
    assert (waiting.step, waiting.attempts, waiting.position) == (0, 5, 3)
    assert waiting.started_at > waiting.created_at


def test_what_is_being_sent_is_left_alone():
    row = make_endpoint()
    sending = make_delivery(row, **leased())
    dead = make_delivery(row, state=EXHAUSTED)
    assert by_id(row, sending.event, dead.event) == 1
    assert Delivery.objects.get(pk=sending.pk).lease_token == sending.lease_token
    assert Delivery.objects.get(pk=sending.pk).due_at == sending.due_at


def test_a_lapsed_lease_is_nobody_sending():
    row = make_endpoint()
    lapsed = make_delivery(row, **leased(timezone.now() - DAY))
    assert by_id(row, lapsed.event) == 1


def test_the_window_is_of_occurred_at_and_leaves_its_end_out():
    row, now = make_endpoint(), timezone.now()
    old, edge, inside, end = (make_event(age=hours * timedelta(hours=1)) for hours in (30, 20, 10, 5))
    assert replay(OPERATOR, row, since=edge.occurred_at, until=end.occurred_at) == 2
    assert set(Delivery.objects.values_list("event_id", flat=True)) == {edge.pk, inside.pk}
    assert replay(OPERATOR, row, since=now - 2 * DAY) == 4
    assert Delivery.objects.filter(event=old).exists()


def deliveries_of_all_kinds(row: Endpoint) -> dict[str, Delivery]:
    return {
        "dead": make_delivery(row, state=EXHAUSTED, attempts=13, last_error="timeout"),
        "succeeded": make_delivery(row, state=DELIVERED),
        "failed": make_delivery(row, attempts=2, last_error="timeout", due_at=timezone.now() + DAY),
        "new": make_delivery(row),
        "replayed and dead": make_delivery(
            row, state=EXHAUSTED, attempts=14, first_delivered_at=timezone.now()
        ),
    }


@pytest.mark.parametrize(
    ("status", "names"),
    [("dead", {"dead"}), ("failed", {"failed"}), ("succeeded", {"succeeded", "replayed and dead"})],
)
def test_a_status_selects_by_what_became_of_the_deliveries(status, names):
    row = make_endpoint()
    kinds = deliveries_of_all_kinds(row)
    make_event()
    make_delivery(make_endpoint(), state=EXHAUSTED)
    before = dict(Delivery.objects.values_list("pk", "due_at"))
    assert lately(row, status=status) == len(names)
    changed = {pk for pk, due_at in Delivery.objects.values_list("pk", "due_at") if due_at != before[pk]}
    assert changed == {kinds[name].pk for name in names}


def test_without_a_status_everything_in_the_window_is_meant():
    row = make_endpoint()
    deliveries_of_all_kinds(row)
    make_event()
    assert lately(row) == 6


def test_other_owners_events_are_left_out_in_silence():
    Tenant.objects.create(id="ours", partner=Partner.objects.create(id="umbrella"))
    mine, theirs = make_event(), make_event(tenant_id="other")
    ours = make_event(tenant_id="ours", partner_id="umbrella")
    nobodys = make_event(tenant_id=None)
    everything = (mine, theirs, ours, nobodys)
    assert by_id(make_endpoint(), *everything, actor=tenant()) == 1
    assert by_id(make_endpoint(partner_id="umbrella"), *everything, actor=partner()) == 1
    assert by_id(make_endpoint(tenant_id=None), *everything) == 4
    assert by_id(make_endpoint(), theirs) == 0
    assert lately(make_endpoint()) == 1


def test_the_filters_of_the_endpoint_hold():
    paid = make_event(identity_id="a")
    make_event(type="orders.paid")
    make_event(type="invoice.paid")
    test = make_event(environment="test")
    assert lately(make_endpoint(events=["order.*"])) == 1
    assert lately(make_endpoint(events=["order.paid", "invoice.*"])) == 2
    assert lately(make_endpoint(events=[])) == 0
    assert lately(make_endpoint(identity_ids=["a", "b"])) == 1
    assert lately(make_endpoint(identity_ids=[])) == 0
    assert by_id(make_endpoint(identity_ids=["b"]), paid) == 0
    assert by_id(make_endpoint(), test) == 0


def test_tests_pings_and_news_about_itself_are_never_replayed():
    row, other = make_endpoint(partner_id="umbrella"), make_endpoint(partner_id="umbrella")
    common = {"tenant_id": None, "partner_id": "umbrella"}
    test = make_event(type="webhook.test", **common)
    ping = make_event(type="webhook.ping", **common)
    disabled = make_event(type="webhook.disabled", about_endpoint_id=row.pk, **common)
    assert by_id(row, test, ping, disabled) == 0
    assert by_id(other, test, ping, disabled) == 1


@pytest.mark.parametrize(("days", "queued"), [(29.9, 1), (30.1, 0)])
def test_the_retention_counts_from_occurred_at_and_not_from_the_death(days, queued):
    row = make_endpoint()
    delivery = make_delivery(row, make_event(age=days * DAY), state=EXHAUSTED)
    assert by_id(row, delivery.event) == queued
    assert replay(OPERATOR, row, since=timezone.now() - 400 * DAY) == queued


@pytest.mark.parametrize(("own", "days", "queued"), [(5, 4.9, 1), (5, 5.1, 0), (90, 80, 1), (None, 29, 1)])
def test_a_tenant_may_have_its_own_retention(own, days, queued):
    Tenant.objects.create(id="acme", retention_days=own)
    assert by_id(make_endpoint(), make_event(age=days * DAY)) == queued


def test_an_events_own_tenant_may_shorten_the_window_and_not_lengthen_it():
    Tenant.objects.create(id="short", retention_days=5)
    Tenant.objects.create(id="long", retention_days=90)
    platform = make_endpoint(tenant_id=None)
    assert by_id(platform, make_event(tenant_id="short", age=6 * DAY)) == 0
    assert by_id(platform, make_event(tenant_id="long", age=31 * DAY)) == 0


def test_an_expired_event_is_not_queued():
    assert by_id(make_endpoint(), make_event(expires_at=timezone.now() - DAY)) == 0


def test_ids_that_nobody_knows_are_left_out_in_silence():
    row, event = make_endpoint(), make_event()
    ids = ["evt_unknown", "a\x00b", "\ud800", "", "x" * 400]
    assert replay(OPERATOR, row, event_ids=[*ids, event.public_id]) == 1
    assert replay(OPERATOR, row, event_ids=ids) == 0


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({}, "event_ids"),
        ({"event_ids": ["a"], "since": timezone.now()}, "event_ids"),
        ({"event_ids": []}, "event_ids"),
        ({"event_ids": "evt_1"}, "event_ids"),
        ({"event_ids": [1]}, "event_ids"),
        ({"event_ids": ["a", "a"]}, "event_ids"),
        ({"event_ids": [f"evt_{n}" for n in range(101)]}, "event_ids"),
        ({"event_ids": ["a"], "status": "dead"}, "status"),
        ({"event_ids": ["a"], "until": timezone.now()}, "until"),
        ({"since": "yesterday"}, "since"),
        ({"since": timezone.now().replace(tzinfo=None)}, "since"),
        ({"since": timezone.now(), "until": timezone.now() - DAY}, "until"),
        ({"since": timezone.now(), "status": "lost"}, "status"),
    ],
)
def test_refused_requests(values, path):
    with pytest.raises(InvalidRequest) as caught:
        replay(OPERATOR, make_endpoint(), **values)
    assert [each for each, _ in caught.value.errors] == [path]


def test_too_many_events_ask_for_a_narrower_window(monkeypatch):
    monkeypatch.setattr(replay_selection, "MAX_EVENTS", 3)
    row = make_endpoint()
    for _ in range(3):
        make_event()
    assert lately(row) == 3
    make_event()
    with pytest.raises(InvalidRequest, match="narrower window"):
        lately(row)


def test_a_disabled_endpoint_refuses_and_a_paused_one_holds():
    row, event = make_endpoint(), make_event()
    pause(OPERATOR, row)
    assert by_id(row, event) == 1
    disable(OPERATOR, row)
    with pytest.raises(Conflict) as caught:
        by_id(row, event)
    assert caught.value.code == "webhook_disabled"


def test_the_path_is_woken_after_the_commit(rung, django_capture_on_commit_callbacks):
    row, event = make_endpoint(), make_event()
    with django_capture_on_commit_callbacks(execute=True):
        by_id(row, event)
    assert rung == [row.pk]


def test_it_is_audited():
    row, event = make_endpoint(), make_event()
    by_id(row, event)
    assert AuditEntry.objects.latest("id").details == {"queued": 1, "asked": 1}
    lately(row, status="dead")
    details = AuditEntry.objects.latest("id").details
    assert (details["queued"], details["status"], set(details)) == (0, "dead", {"queued", "status", "since"})


def test_foreign_and_deleted_endpoints_do_not_exist():
    row, event = make_endpoint(), make_event()
    with pytest.raises(NotFound):
        by_id(row, event, actor=tenant("other"))
    delete_endpoint(OPERATOR, row)
    with pytest.raises(NotFound):
        by_id(row, event)


def test_without_the_permission_nothing_happens():
    with pytest.raises(PermissionDenied):
        by_id(make_endpoint(), make_event(), actor=tenant(permissions=frozenset({"webhooks:read"})))


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_replays_at_once_queue_each_event_once():
    row = make_endpoint(ordering="fifo", max_in_flight=1)
    events = [make_event() for _ in range(20)]
    for event in events[:10]:
        make_delivery(row, event, state=EXHAUSTED, lane="", priority=Delivery.Priority.ORDERED)
    results = together(*[lambda: by_id(row, *events)] * 10)
    assert results == [20] * 10
    positions = list(Delivery.objects.values_list("position", flat=True))
    assert len(positions) == len(set(positions)) == 20
