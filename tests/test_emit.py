"""emit and emit_many: what they write, in which order, with which numbers."""

import json
import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.translation import gettext_lazy

from tests.testapp.models import Customer, Order
from webhooks_app.events import EventRef, emit, emit_many
from webhooks_app.models import OutboxEntry, OwnerSequence
from webhooks_app.pipeline import append

pytestmark = pytest.mark.django_db

ORDER = ("order", "7")


def body_of(ref: EventRef) -> bytes:
    return bytes(OutboxEntry.objects.get(event_id=ref.id).body)


def sequences(owner: tuple[str, str]) -> list[int | None]:
    rows = OutboxEntry.objects.filter(owner_kind=owner[0], owner_id=owner[1])
    return list(rows.order_by("id").values_list("sequence", flat=True))


def test_the_stored_bytes_are_the_envelope():
    moment = timezone.now().replace(microsecond=123_999) - timedelta(hours=1)
    ref = emit(
        "order.paid",
        {"total": Decimal("1.10"), "id": UUID(int=1), "big": 2**53 + 1, "text": "münchen 😊\u2028"},
        tenant="acme",
        identity="shop",
        owner=ORDER,
        event_id="evt_1",
        occurred_at=moment,
    )
    at = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.123Z")
    expected = (
        f'{{"id":"evt_1","type":"order.paid","api_version":"2026-10-01","occurred_at":"{at}",'
        '"tenant_id":"acme","identity_id":"shop","sequence":1,"data":{"total":"1.10",'
        '"id":"00000000-0000-0000-0000-000000000001","big":9007199254740993,"text":"münchen 😊\u2028"}}'
    )
    assert ref == EventRef("evt_1", 1, True)
    assert body_of(ref) == expected.encode()


def test_every_column_is_written():
    expires_at = timezone.now() + timedelta(days=1)
    emit(
        "order.paid",
        {},
        tenant="acme",
        identity="shop",
        owner=ORDER,
        subject="order 7",
        expires_at=expires_at,
        environment="test",
    )
    entry = OutboxEntry.objects.get()
    assert (entry.type, entry.tenant_id, entry.identity_id, entry.subject) == (
        "order.paid",
        "acme",
        "shop",
        "order 7",
    )
    assert (entry.owner_kind, entry.owner_id, entry.environment) == ("order", "7", "test")
    assert entry.expires_at == expires_at
    assert entry.dispatched_at is None
    assert abs(entry.recorded_at - timezone.now()) < timedelta(minutes=1)
    assert abs(entry.occurred_at - timezone.now()) < timedelta(minutes=1)


def test_an_event_without_owner_has_no_sequence():
    ref = emit("order.paid", {})
    assert ref.sequence is None
    assert ref.created
    assert json.loads(body_of(ref))["sequence"] is None
    assert not OwnerSequence.objects.exists()


def test_ids_made_here_are_unique_and_ours():
    refs = [emit("order.paid", {}) for _ in range(50)]
    assert len({ref.id for ref in refs}) == 50
    assert all(ref.id.startswith("evt_") for ref in refs)


def test_saved_instances_stand_for_their_keys():
    customer = Customer.objects.create(name="Acme")
    order = Order.objects.create(customer=customer, number="1")
    emit("order.paid", {}, tenant=customer, identity=customer, owner=order)
    entry = OutboxEntry.objects.get()
    assert (entry.tenant_id, entry.identity_id) == (str(customer.pk), str(customer.pk))
    assert (entry.owner_kind, entry.owner_id) == ("order", str(order.pk))


def test_values_of_django_are_written_as_its_encoder_does():
    ref = emit(
        "order.paid",
        {
            "at": datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
            "for": timedelta(seconds=90),
            "label": gettext_lazy("Yes"),
        },
    )
    assert json.loads(body_of(ref))["data"] == {
        "at": "2026-01-02T03:04:05.678Z",
        "for": "P0DT00H01M30S",
        "label": "Yes",
    }


def test_the_sequence_rises_by_one_per_owner():
    other = ("order", "8")
    refs = [emit("order.paid", {}, owner=owner) for owner in (ORDER, other, ORDER, ORDER, other)]
    assert [ref.sequence for ref in refs] == [1, 1, 2, 3, 2]


def test_an_owner_belongs_to_its_tenant():
    """Two tenants may name their orders alike; neither learns how many the other has."""
    tenants = ("acme", "bolt", None, "acme")
    assert [emit("order.paid", {}, owner=ORDER, tenant=tenant).sequence for tenant in tenants] == [1, 1, 1, 2]
    items = [{"type": "order.paid", "data": {}, "owner": ORDER, "tenant": tenant} for tenant in tenants]
    assert [ref.sequence for ref in emit_many(items)] == [3, 2, 2, 4]


def test_the_sequence_goes_on_when_old_rows_are_gone():
    """B041"""
    emit("order.paid", {}, owner=ORDER)
    OutboxEntry.objects.all().delete()
    assert emit("order.paid", {}, owner=ORDER).sequence == 2


def test_a_rolled_back_savepoint_takes_only_its_own_events():
    """B041"""
    first = emit("order.paid", {}, owner=ORDER)
    with transaction.atomic():
        assert emit("order.paid", {}, owner=ORDER).sequence == 2
        transaction.set_rollback(True)
    third = emit("order.paid", {}, owner=ORDER)
    assert (first.sequence, third.sequence) == (1, 2)
    assert sequences(ORDER) == [1, 2]


def test_a_known_id_returns_the_first_event_and_gives_the_number_back():
    """B018, B041"""
    first = emit("order.paid", {"n": 1}, owner=ORDER, event_id="mine")
    again = emit("order.other", {"n": 2}, owner=ORDER, event_id="mine")
    after = emit("order.paid", {}, owner=ORDER)
    assert first == EventRef("mine", 1, True)
    assert again == EventRef("mine", 1, False)
    assert after.sequence == 2
    assert OutboxEntry.objects.get(event_id="mine").type == "order.paid"


def test_a_known_id_needs_no_owner_to_be_known():
    emit("order.paid", {}, event_id="mine")
    assert emit("order.paid", {}, owner=ORDER, event_id="mine") == EventRef("mine", None, False)
    assert not OwnerSequence.objects.exists()


def test_the_same_id_twice_in_one_batch_is_one_event():
    """B018"""
    item = {"type": "order.paid", "data": {}, "owner": ORDER, "event_id": "mine"}
    refs = emit_many([item, {**item, "data": {"n": 2}}, {**item, "event_id": "other"}])
    assert refs == [EventRef("mine", 1, True), EventRef("mine", 1, False), EventRef("other", 2, True)]
    assert sequences(ORDER) == [1, 2]
    assert json.loads(body_of(refs[0]))["data"] == {}


def test_emit_many_keeps_the_order_of_its_items():
    owners = [("order", str(n % 3)) for n in range(12)]
    refs = emit_many({"type": "order.paid", "data": {"n": n}, "owner": o} for n, o in enumerate(owners))
    rows = list(OutboxEntry.objects.order_by("id"))
    assert [row.event_id for row in rows] == [ref.id for ref in refs]
    assert [json.loads(bytes(row.body))["data"]["n"] for row in rows] == list(range(12))
    assert [ref.sequence for ref in refs] == [n // 3 + 1 for n in range(12)]
    assert all(json.loads(bytes(row.body))["sequence"] == row.sequence for row in rows)


def test_emit_many_of_nothing_does_nothing():
    with CaptureQueriesContext(connection) as queries:
        assert emit_many([]) == []
    assert not queries


@pytest.mark.parametrize("owner", [None, ORDER])
def test_emit_costs_one_statement(owner: tuple[str, str] | None):
    with CaptureQueriesContext(connection) as queries:
        emit("order.paid", {}, owner=owner)
    # SQLite cannot draw the number and insert in one.
    assert len(queries) == (2 if owner and connection.vendor == "sqlite" else 1)


def test_emit_many_costs_no_more_statements_than_emit():
    items = [{"type": "order.paid", "data": {}, "owner": ("order", str(n % 7))} for n in range(60)]
    with CaptureQueriesContext(connection) as queries:
        emit_many(items)
    assert len(queries) == 2
    assert OutboxEntry.objects.count() == 60


def test_owners_are_locked_in_key_order():
    with CaptureQueriesContext(connection) as queries:
        emit_many([{"type": "order.paid", "data": {}, "owner": ("order", key)} for key in "cab"])
    upsert = next(each["sql"] for each in queries if "ownersequence" in each["sql"].lower())
    assert upsert.index("'a'") < upsert.index("'b'") < upsert.index("'c'")


def test_a_known_id_costs_a_look_and_no_write():
    emit("order.paid", {}, owner=ORDER, event_id="mine")
    with CaptureQueriesContext(connection) as queries:
        emit("order.paid", {}, owner=ORDER, event_id="mine")
    assert not [each for each in queries if "insert" in each["sql"].lower()]


def test_large_events_are_taken_with_one_warning_per_type(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(append, "_warned", set())
    with caplog.at_level(logging.WARNING, "webhooks_app"):
        for _ in range(3):
            emit("order.paid", {"text": "x" * 20_001})
        emit("order.sent", {"text": "x" * 20_001})
        emit("order.small", {"text": "x"})
    assert [record.args[0] for record in caplog.records] == ["order.paid", "order.sent"]


def test_the_api_version_is_the_setting(settings):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "API_VERSION": "2027-01-01"}
    assert json.loads(body_of(emit("order.paid", {})))["api_version"] == "2027-01-01"
