"""What emit refuses: a typed error that names the value, nothing written, the transaction still usable."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django.utils import timezone

from tests.pipeline.driving import committed
from tests.testapp.models import Customer, Order
from webhooks_app import events
from webhooks_app.events import emit, emit_many
from webhooks_app.exceptions import EmitError, EventTooLarge, InvalidEvent, OutboxError
from webhooks_app.models import OutboxEntry, OwnerSequence, Tenant

LOOP: dict[str, Any] = {}
LOOP["again"] = LOOP


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def check_refused(call: Callable[[], object], path: str, kind: type[InvalidEvent] = InvalidEvent) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.path == path
    assert not OutboxEntry.objects.exists()
    assert not OwnerSequence.objects.exists()
    # The transaction is as good as before.
    assert emit("order.paid", {}, owner=("order", "1")).sequence == 1


BAD_DATA = {
    "NaN": ({"x": float("nan")}, "/data/x"),
    "Infinity": ({"x": [1, float("inf")]}, "/data/x/1"),
    "minus Infinity": ({"x": float("-inf")}, "/data/x"),
    "Decimal NaN": ({"x": Decimal("NaN")}, "/data/x"),
    "Decimal sNaN": ({"x": Decimal("sNaN")}, "/data/x"),
    "Decimal Infinity": ({"x": Decimal("-Infinity")}, "/data/x"),
    "naive datetime": ({"at": datetime(2026, 1, 1)}, "/data/at"),
    "lone surrogate": ({"text": "a\ud83d"}, "/data/text"),
    "lone surrogate in a key": ({"a\ud83d": 1}, None),
    "NUL": ({"a": {"b": "x\x00y"}}, "/data/a/b"),
    "NUL in a key": ({"a\x00": 1}, None),
    "set": ({"x": {1}}, "/data/x"),
    "bytes": ({"x": b"1"}, "/data/x"),
    "object": ({"a~b/c": object()}, "/data/a~0b~1c"),
    "huge integer": ({"n": 10**5000}, "/data/n"),
    "cycle": (LOOP, None),
    "too deep": (nested(5_000), None),
    "key that is no text": ({(1, 2): 1}, None),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data(name: str):
    """B049, B051, B053, B055, B056, B060"""
    data, path = BAD_DATA[name]
    with pytest.raises(InvalidEvent) as caught:
        emit("order.paid", data, owner=("order", "1"))
    assert caught.value.path.startswith("/data")
    check_refused(lambda: emit("order.paid", data, owner=("order", "1")), path or caught.value.path)


@pytest.mark.django_db
def test_a_model_instance_is_no_data():
    customer = Customer.objects.create(name="Acme")
    check_refused(lambda: emit("order.paid", {"who": customer}), "/data/who")


@pytest.mark.django_db
def test_a_body_over_the_limit():
    """B058"""
    check_refused(lambda: emit("order.paid", {"x": "y" * 262_144}), "/data", EventTooLarge)
    assert EventTooLarge.code == "payload_too_large"


@pytest.mark.django_db
def test_the_limit_is_in_bytes_of_the_whole_envelope(settings):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_BODY_BYTES": 2_000}
    emit("order.paid", {"x": "y" * 1_700})
    with pytest.raises(EventTooLarge):
        emit("order.paid", {"x": "ä" * 950})


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "type empty": ({"type": ""}, "type"),
    "type with a space": ({"type": "order paid"}, "type"),
    "type of 129": ({"type": "x" * 129}, "type"),
    "type not ASCII": ({"type": "bestellung.über"}, "type"),
    "type of two dots": ({"type": "order..paid"}, "type"),
    "type that is no text": ({"type": 5}, "type"),
    "type with a newline": ({"type": "order.paid\n"}, "type"),
    "reserved type": ({"type": "webhook.disabled"}, "type"),
    "reserved own type": ({"type": "webhook.mine"}, "type"),
    "tenant empty": ({"tenant": ""}, "tenant"),
    "tenant number": ({"tenant": 5}, "tenant"),
    "tenant of 129": ({"tenant": "t" * 129}, "tenant"),
    "tenant with NUL": ({"tenant": "a\x00"}, "tenant"),
    "tenant surrogate": ({"tenant": "a\ud800"}, "tenant"),
    "identity number": ({"identity": 5}, "identity"),
    "subject of 257": ({"subject": "s" * 257}, "subject"),
    "owner text": ({"owner": "order"}, "owner"),
    "owner of three": ({"owner": ("a", "b", "c")}, "owner"),
    "owner without id": ({"owner": ("order", None)}, "owner"),
    "owner kind of 65": ({"owner": ("k" * 65, "1")}, "owner kind"),
    "owner id of 129": ({"owner": ("order", "1" * 129)}, "owner id"),
    "owner id of a number": ({"owner": ("order", 1)}, "owner id"),
    "event id of 65": ({"event_id": "e" * 65}, "event_id"),
    "event id empty": ({"event_id": ""}, "event_id"),
    "event id with a dot": ({"event_id": "evt.1"}, "event_id"),
    "event id with a newline": ({"event_id": "evt_1\n"}, "event_id"),
    "event id not ASCII": ({"event_id": "evt_é"}, "event_id"),
    "event id number": ({"event_id": 5}, "event_id"),
    "occurred naive": ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at"),
    "occurred text": ({"occurred_at": "2026-01-01T00:00:00Z"}, "occurred_at"),
    "expires naive": ({"expires_at": datetime(2100, 1, 1)}, "expires_at"),
    "expires over": ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at"),
    "environment unknown": ({"environment": "prod"}, "environment"),
    "environment None": ({"environment": None}, "environment"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments(name: str):
    """B140"""
    values, path = BAD_ARGUMENTS[name]
    check_refused(lambda: emit(**{"type": "order.paid", "data": {}, **values}), path)


@pytest.mark.django_db
@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_in_a_list_name_their_place(name: str):
    values, path = BAD_ARGUMENTS[name]
    good = {"type": "order.paid", "data": {}}
    check_refused(lambda: emit_many([good, {**good, **values}]), f"/1/{path}")


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["tenant", "identity", "owner"])
def test_an_instance_that_is_not_saved(name: str):
    unsaved = Customer(name="Acme")
    keyed = Order(pk=5, number="1")
    check_refused(lambda: emit("order.paid", {}, **{name: unsaved}), name)
    OutboxEntry.objects.all().delete()
    OwnerSequence.objects.all().delete()
    check_refused(lambda: emit("order.paid", {}, **{name: keyed}), name)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("offset", "taken"),
    [
        (timedelta(minutes=59), True),
        (timedelta(minutes=61), False),
        (timedelta(days=-29, hours=-23), True),
        (timedelta(days=-30, minutes=-1), False),
    ],
)
def test_occurred_at_lies_within_the_retention_and_an_hour(offset: timedelta, taken: bool):
    moment = timezone.now() + offset
    if taken:
        emit("order.paid", {}, occurred_at=moment)
        assert OutboxEntry.objects.get().occurred_at == moment
    else:
        check_refused(lambda: emit("order.paid", {}, occurred_at=moment), "occurred_at")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("own", "age", "taken"), [(5, 6, False), (5, 4, True), (90, 60, True), (90, 91, False)]
)
def test_occurred_at_lies_within_the_tenants_own_retention(own: int, age: int, taken: bool):
    Tenant.objects.create(id="acme", retention_days=own)
    moment = timezone.now() - timedelta(days=age)
    if taken:
        assert emit("order.paid", {}, tenant="acme", occurred_at=moment).created
    else:
        with pytest.raises(InvalidEvent, match=f"within {own} days back"):
            emit("order.paid", {}, tenant="acme", occurred_at=moment)


@pytest.mark.django_db
def test_only_what_is_older_than_a_day_is_asked_for_and_that_once_a_tenant(django_assert_num_queries: Any):
    now = timezone.now()
    with django_assert_num_queries(1):
        emit("order.paid", {}, tenant="acme", occurred_at=now - timedelta(hours=23))
    old = {"type": "order.paid", "data": {}, "occurred_at": now - timedelta(days=2)}
    with django_assert_num_queries(3):
        emit_many([{**old, "tenant": tenant} for tenant in ("acme", "acme", "other", "other")])


@pytest.mark.django_db(databases=["default", "second"])
def test_a_delivery_database_that_is_away_stops_no_emit_into_another(
    settings: Any, monkeypatch: pytest.MonkeyPatch
):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "OUTBOX_DATABASES": ["default", "second"]}

    def away(*_: object) -> int:
        raise OperationalError

    monkeypatch.setattr(events, "read_days", away)
    old = timezone.now() - timedelta(days=29)
    assert emit("order.paid", {}, tenant="acme", occurred_at=old, using="second").created
    with pytest.raises(OperationalError):
        emit("order.paid", {}, tenant="acme", occurred_at=old)


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="tennant"):
        emit("order.paid", {}, tennant="acme")  # type: ignore[call-arg]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": "order.paid", "data": {}, "tennant": "acme"}, "/1/tennant"),
        ({"type": "order.paid", "data": {}, "using": "default"}, "/1/using"),
        ({"type": "order.paid"}, "/1"),
        ({"data": {}}, "/1"),
        ("order.paid", "/1"),
        ({"type": "order.paid", "data": {"lines": [1, float("nan")]}}, "/1/data/lines/1"),
    ],
)
def test_a_bad_item_refuses_the_whole_list(item: Any, path: str):
    good = {"type": "order.paid", "data": {}, "owner": ("order", "1")}
    check_refused(lambda: emit_many([good, item, good]), path)


@pytest.mark.django_db
def test_a_bad_item_beside_a_known_id_leaves_nothing():
    emit("order.paid", {}, event_id="mine")
    good = {"type": "order.paid", "data": {}, "owner": ("order", "1"), "event_id": "other"}
    with pytest.raises(InvalidEvent):
        emit_many([good, {**good, "event_id": "mine"}, {**good, "event_id": "third", "data": {1, 2}}])
    assert list(OutboxEntry.objects.values_list("event_id", flat=True)) == ["mine"]
    assert not OwnerSequence.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("alias", ["nowhere", "second"])
def test_a_database_that_is_no_outbox(alias: str):
    with pytest.raises(OutboxError, match=alias):
        emit("order.paid", {}, using=alias)
    with pytest.raises(OutboxError, match=alias):
        emit_many([{"type": "order.paid", "data": {}}], using=alias)


@committed
def test_outside_a_transaction():
    for call in (lambda: emit("order.paid", {}), lambda: emit_many([{"type": "order.paid", "data": {}}])):
        with pytest.raises(OutboxError, match="atomic"):
            call()
    assert issubclass(OutboxError, RuntimeError)
    assert issubclass(InvalidEvent, ValueError)
    assert issubclass(InvalidEvent, EmitError)
    assert not OutboxEntry.objects.exists()


@committed
def test_outside_a_transaction_where_the_setting_allows_it(settings):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "REQUIRE_ATOMIC": False, "QUEUE": "poll"}
    ref = emit("order.paid", {}, owner=("order", "1"))
    assert OutboxEntry.objects.get().event_id == ref.id


@committed
def test_a_refusal_does_not_spoil_the_callers_transaction(settings):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "QUEUE": "poll"}
    with transaction.atomic():
        customer = Customer.objects.create(name="Acme")
        for data in ({"x": float("nan")}, {"x": "y" * 300_000}, {"x": object()}):
            with pytest.raises(InvalidEvent):
                emit("order.paid", data, tenant=customer, owner=customer, event_id="mine")
        emit("order.paid", {}, tenant=customer, event_id="mine")
    assert Customer.objects.count() == 1
    assert OutboxEntry.objects.count() == 1
