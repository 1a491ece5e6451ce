"""Replay under a new `webhook-id`: copies that say what they repeat."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import (
    OPERATOR,
    leased,
    make_delivery,
    make_endpoint,
    make_event,
    tenant,
    together,
)
from webhooks_app.actions import replay_copy
from webhooks_app.actions.replay import replay
from webhooks_app.actions.replay_copy import Marker, copied_body
from webhooks_app.core.envelope import build
from webhooks_app.core.states import DELIVERED, EXHAUSTED, PENDING
from webhooks_app.exceptions import ActionError, InvalidRequest
from webhooks_app.models import Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.pipeline.index import has_unfanned
from webhooks_app.pipeline.transactions import reading

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def event_with_body(data: object, **values) -> Event:
    event = make_event(**values)
    body = build(
        id=event.public_id,
        type=event.type,
        api_version="2026-10-01",
        occurred_at=event.occurred_at,
        tenant_id=event.tenant_id,
        identity_id=None,
        sequence=7,
        data=data,
        max_bytes=10_000,
    )
    OutboxEntry.objects.filter(pk=event.outbox_id).update(body=body)
    return event


def anew(endpoint: Endpoint, *events, actor=OPERATOR, webhook_id="new") -> int:
    ids = [event.public_id for event in events]
    return replay(actor, endpoint, event_ids=ids, webhook_id=webhook_id)


def test_a_copy_says_what_it_repeats_and_changes_nothing_else():
    original = event_with_body(
        {"price": 1.10, "big": 10**30, "text": 'é"id":"x"'}, identity_id="i", subject="s"
    )
    row = make_endpoint()
    old = make_delivery(row, original, state=DELIVERED)
    assert anew(row, original, actor=tenant(request_id="req_1")) == 1
    copy = Event.objects.get(replay_of=original.pk)
    body = json.loads(bytes(copy.body))
    marker = body.pop("replay")
    assert body.pop("id") == copy.public_id != original.public_id
    assert marker.pop("replayed_at")
    assert marker == {"original_event_id": original.public_id, "request_id": "req_1"}
    old_body = bytes(OutboxEntry.objects.get(pk=original.outbox_id).body)
    assert body == {name: value for name, value in json.loads(old_body).items() if name != "id"}
    same = (
        "type",
        "tenant_id",
        "partner_id",
        "identity_id",
        "subject",
        "occurred_at",
        "expires_at",
        "environment",
    )
    assert [getattr(copy, name) for name in same] == [getattr(original, name) for name in same]
    new = Delivery.objects.get(event=copy)
    assert (new.endpoint_id, new.state) == (row.pk, PENDING)
    old.refresh_from_db()
    assert old.state == DELIVERED


def test_the_bytes_between_stay_as_they_are():
    marker = Marker(timezone.now(), None)
    body = b'{"id":"evt_1","data":{"n":1.50,"e":1E5,"s":"\\u00e9"}}'
    made = copied_body(body, "evt_1", "evt_2", marker)
    assert made.startswith(b'{"id":"evt_2","data":{"n":1.50,"e":1E5,"s":"\\u00e9"},"replay":{')
    assert json.loads(made)["replay"]["request_id"] is None
    assert copied_body(b"{}", "evt_1", "evt_2", marker) is None
    assert copied_body(b'{"id":"evt_12"}', "evt_1", "evt_2", marker) is None


def test_a_copy_is_never_fanned_out_and_never_replayed():
    row, other = make_endpoint(), make_endpoint()
    original = event_with_body({})
    anew(row, original)
    copy = Event.objects.get(replay_of=original.pk)
    with reading("default") as tx:
        assert not has_unfanned(tx)
    assert anew(row, copy) == anew(other, copy, webhook_id="same") == 0
    assert replay(OPERATOR, other, since=timezone.now() - DAY) == 1


def test_every_replay_makes_another_copy_but_pressing_twice_does_not():
    row, original = make_endpoint(), event_with_body({})
    assert anew(row, original) == anew(row, original) == 1
    copy = Event.objects.get(replay_of=original.pk)
    assert Delivery.objects.count() == 1
    Delivery.objects.update(state=DELIVERED)
    assert anew(row, original) == 1
    assert Event.objects.filter(replay_of=original.pk).exclude(pk=copy.pk).count() == 1
    assert anew(make_endpoint(), original) == 1
    assert Event.objects.filter(replay_of=original.pk).count() == 3


def test_a_copy_that_is_being_sent_is_not_made_twice():
    row, original = make_endpoint(), event_with_body({})
    other = event_with_body({})
    anew(row, original, other)
    Delivery.objects.update(**leased())
    assert anew(row, original, other) == 0
    assert Delivery.objects.count() == 2


def test_the_policy_chooses_when_the_request_does_not():
    original = event_with_body({})
    anew(make_endpoint(policy="exponential"), original, webhook_id=None)
    anew(make_endpoint(policy="strict"), original, webhook_id=None)
    anew(make_endpoint(policy="exponential"), original, webhook_id="same")
    assert Event.objects.filter(replay_of=original.pk).count() == 1
    assert Delivery.objects.filter(event=original).count() == 2
    with pytest.raises(InvalidRequest) as caught:
        anew(make_endpoint(), original, webhook_id="other")
    assert [path for path, _ in caught.value.errors] == ["webhook_id"]


def test_the_status_is_that_of_the_originals():
    row = make_endpoint()
    for state in (EXHAUSTED, DELIVERED):
        make_delivery(row, event_with_body({}), state=state)
    assert replay(OPERATOR, row, since=timezone.now() - DAY, status="dead", webhook_id="new") == 1
    assert Event.objects.filter(replay_of__isnull=False).count() == 1


def test_an_event_without_body_is_copied_without_one():
    row, original = make_endpoint(), event_with_body({})
    OutboxEntry.objects.all().delete()
    assert anew(row, original) == 1
    assert Event.objects.get(replay_of=original.pk).body is None


def test_an_outbox_that_does_not_answer_is_no_erased_body(monkeypatch):
    row, original = make_endpoint(), event_with_body({})
    monkeypatch.setattr(replay_copy, "read_contents", lambda alias, keys: {})
    with pytest.raises(ActionError) as caught:
        anew(row, original)
    assert caught.value.code == "unavailable"
    assert not Event.objects.filter(replay_of=original.pk).exists()


def test_copies_in_chunks_keep_the_order(monkeypatch):
    monkeypatch.setattr(replay_copy, "CHUNK", 2)
    row, events = make_endpoint(), [event_with_body({"n": n}) for n in range(5)]
    assert anew(row, *reversed(events)) == 5
    places = Delivery.objects.order_by("position").values_list("event__replay_of", flat=True)
    assert list(places) == [event.pk for event in events]


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_ten_replays_at_once_make_one_copy_each():
    row, events = make_endpoint(), [event_with_body({}) for _ in range(3)]
    assert together(*[lambda: anew(row, *events)] * 10) == [3] * 10
    assert Event.objects.filter(replay_of__isnull=False).count() == 3
    assert Delivery.objects.count() == 3
