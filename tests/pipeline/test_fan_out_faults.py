"""Fan-out in trouble: entries that raise, a second database, databases that are down, crashes in between."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.utils import timezone

from webhooks_app.models import Delivery, Event, OutboxEntry
from webhooks_app.pipeline import contents, dispatch, fan_out, inline, tick
from webhooks_app.pipeline.dispatch import has_waiting
from webhooks_app.pipeline.fan_out import fan_out_batch
from webhooks_app.signals import entry_set_aside

from .conftest import Bell, Clock
from .driving import ALIAS, attempts_of, check_books, committed_in_both, run_path
from .factories import EndpointFactory, emit_for
from .receiver import Receiver

in_both = pytest.mark.django_db(databases=["default", "second"])


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def both(configure: Callable[..., None]) -> None:
    """Take outbox entries from both databases."""
    configure(OUTBOX_DATABASES=["default", "second"])


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the fan-out of some events raise."""
    real = fan_out.Item.of

    def choose(*event_ids: str) -> None:
        def of(entry: Any, *rest: Any) -> Any:
            if entry.event_id in event_ids:
                raise ValueError("a poisonous entry")
            return real(entry, *rest)

        monkeypatch.setattr(fan_out.Item, "of", of)

    return choose


@pytest.mark.django_db
def test_an_entry_that_raises_blocks_nobody(poison: Callable[..., None]):
    endpoint = EndpointFactory()
    refs = emit_for(endpoint, 5)
    poison(refs[2].id)
    inline.fan_out()
    fanned = set(Event.objects.values_list("public_id", flat=True))
    assert fanned == {ref.id for ref in refs} - {refs[2].id}
    assert Delivery.objects.count() == 4
    assert OutboxEntry.objects.get(event_id=refs[2].id).failures == 1


@pytest.mark.django_db
def test_an_entry_that_raises_is_set_aside_after_three_tries(
    poison: Callable[..., None], caplog: pytest.LogCaptureFixture
):
    told = []

    def listen(**values: Any) -> None:
        told.append((values["event_id"], values["outbox_alias"]))

    entry_set_aside.connect(listen)
    endpoint = EndpointFactory()
    (bad,) = emit_for(endpoint)
    poison(bad.id)
    for failures in (1, 2, 3):
        assert OutboxEntry.objects.get().set_aside_at is None
        inline.fan_out()
        assert OutboxEntry.objects.get().failures == failures
    assert OutboxEntry.objects.get().set_aside_at is not None
    assert not has_waiting(ALIAS)
    assert told == [(bad.id, ALIAS)]
    assert "set aside after 3 failed fan-outs" in caplog.text
    inline.fan_out()
    assert OutboxEntry.objects.get().failures == 3
    entry_set_aside.disconnect(listen)


@pytest.mark.django_db
def test_an_entry_that_recovers_is_delivered(poison: Callable[..., None], monkeypatch: pytest.MonkeyPatch):
    endpoint = EndpointFactory()
    (bad,) = emit_for(endpoint)
    poison(bad.id)
    inline.fan_out()
    poison("none")
    inline.fan_out()
    assert Delivery.objects.count() == 1


def failures() -> list[int]:
    return list(OutboxEntry.objects.order_by("pk").values_list("failures", flat=True))


@pytest.mark.django_db
def test_several_that_raise_are_counted_though_nobody_else_passes(
    poison: Callable[..., None], caplog: pytest.LogCaptureFixture
):
    refs = [*emit_for(EndpointFactory(), 2), *emit_for(None)]
    poison(*(ref.id for ref in refs))
    for tries in (1, 2, 3):
        inline.fan_out()
        assert failures() == [tries] * 3
    assert not has_waiting(ALIAS)
    assert caplog.text.count("is set aside after 3 failed fan-outs") == 3


@pytest.mark.django_db
def test_the_control_leaves_nothing_behind(poison: Callable[..., None]):
    endpoint = EndpointFactory()
    emit_for(endpoint)
    inline.fan_out()
    (bad,) = emit_for(endpoint)
    poison(bad.id)
    before = Delivery.objects.get().position
    inline.fan_out()
    assert failures() == [0, 1]
    poison()
    inline.fan_out()
    assert (Event.objects.count(), Delivery.objects.count()) == (2, 2)
    assert Delivery.objects.order_by("position").last().position == before + 1


class Away:
    """A host's tenancy that does not answer."""

    def partner_of(self, tenant_id: str) -> str | None:
        raise ConnectionError("away")

    def is_suspended(self, tenant_id: str | None, partner_id: str | None) -> bool:
        return False


@pytest.mark.django_db
@pytest.mark.parametrize("count", [1, 3])
def test_what_every_event_has_is_no_entrys_fault(
    count: int, configure: Callable[..., None], caplog: pytest.LogCaptureFixture
):
    """It may last for days: nothing is set aside, and all of it goes on by itself."""
    emit_for(EndpointFactory(), count)
    configure(TENANCY="tests.pipeline.test_fan_out_faults.Away")
    for _ in range(4):
        with pytest.raises(ConnectionError):
            inline.fan_out()
    assert failures() == [0] * count
    assert "no event can be fanned out for tenant" in caplog.text
    configure(TENANCY=None)
    inline.fan_out()
    assert Delivery.objects.count() == count


@pytest.mark.django_db
def test_a_tenant_whose_events_all_fail_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]
):
    """The next batch starts with the next tenant, even when nothing came of this one."""

    def partner_of(self: object, tenant_id: str) -> str | None:
        if tenant_id == "z":
            raise ConnectionError("away")
        return None

    monkeypatch.setattr(Away, "partner_of", partner_of)
    monkeypatch.setattr(fan_out, "MAX_EVENTS", 4)
    configure(TENANCY="tests.pipeline.test_fan_out_faults.Away")
    mine = EndpointFactory(tenant_id="a")
    emit_for("z", 9)
    emit_for("a", 9)
    fan_out._after[ALIAS] = "b"
    with pytest.raises(ConnectionError):
        fan_out_batch(ALIAS, ALIAS)
    for _ in range(5):
        with contextlib.suppress(ConnectionError):
            fan_out_batch(ALIAS, ALIAS)
    assert Delivery.objects.filter(endpoint=mine).count() > 4


@pytest.mark.django_db
def test_one_by_one_is_still_the_order_of_the_outbox(
    poison: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    """Also for an event with more endpoints than a batch: it ends before the next one begins."""
    real = fan_out.plan
    monkeypatch.setattr(fan_out, "plan", lambda items, found: real(items, found, 2))
    endpoints = EndpointFactory.create_batch(5, tenant_id=None)
    refs = [ref for tenant in ("b", "a", None, "b", "a") for ref in emit_for(tenant)]
    poison(refs[2].id)
    inline.fan_out()
    for endpoint in endpoints:
        rows = Delivery.objects.filter(endpoint=endpoint).order_by("position").select_related("event")
        assert [row.event.public_id for row in rows] == [ref.id for ref in refs if ref is not refs[2]]


@pytest.mark.django_db
def test_the_same_id_from_another_row_is_set_aside_and_told(caplog: pytest.LogCaptureFixture):
    endpoint = EndpointFactory()
    (ref,) = emit_for(endpoint, event_id="mine")
    inline.fan_out()
    OutboxEntry.objects.update(event_id="pruned")
    emit_for(endpoint, event_id="mine")
    emit_for(endpoint, event_id="next")
    inline.fan_out()
    assert OutboxEntry.objects.get(event_id="mine").set_aside_at is not None
    assert set(Event.objects.values_list("public_id", flat=True)) == {"mine", "next"}
    assert "another event has its id" in caplog.text
    assert not has_waiting(ALIAS)
    assert ref.id == "mine"


@in_both
@pytest.mark.usefixtures("both")
def test_entries_of_both_databases_are_delivered(receiver: Receiver):
    endpoint = EndpointFactory()
    refs = [*emit_for(endpoint, 2), *emit_for(endpoint, 2, using="second")]
    run_path()
    assert sorted(receiver.ids()) == sorted(ref.id for ref in refs)
    assert set(Event.objects.values_list("outbox_alias", flat=True)) == {"default", "second"}
    assert not has_waiting("default")
    assert not has_waiting("second")
    bodies = {bytes(entry.body) for entry in OutboxEntry.objects.using("second")}
    assert bodies <= {request.body for request in receiver.requests}
    check_books()


@in_both
@pytest.mark.usefixtures("both")
def test_the_same_id_from_another_database_is_set_aside(receiver: Receiver, caplog: pytest.LogCaptureFixture):
    endpoint = EndpointFactory()
    emit_for(endpoint, event_id="mine")
    emit_for(endpoint, event_id="mine", using="second")
    emit_for(endpoint, event_id="next", using="second")
    run_path()
    assert sorted(receiver.ids()) == ["mine", "next"]
    assert OutboxEntry.objects.using("second").get(event_id="mine").set_aside_at is not None
    assert OutboxEntry.objects.get(event_id="mine").set_aside_at is None
    assert "outbox second is set aside" in caplog.text
    assert not has_waiting("second")


@in_both
@pytest.mark.usefixtures("both")
def test_who_listens_hears_of_a_taken_id_after_the_commit():
    endpoint = EndpointFactory()
    emit_for(endpoint, event_id="mine", using="second")
    fan_out_batch(ALIAS, "second")
    emit_for(endpoint, event_id="mine")
    outside, told = list(connections[ALIAS].savepoint_ids), []

    def listen(**_: object) -> None:
        told.append(list(connections[ALIAS].savepoint_ids))

    entry_set_aside.connect(listen)
    try:
        fan_out_batch(ALIAS, ALIAS)
    finally:
        entry_set_aside.disconnect(listen)
    assert told == [outside]


@in_both
@pytest.mark.usefixtures("both")
def test_a_crash_between_the_two_commits_makes_nothing_twice(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    endpoint = EndpointFactory()
    refs = emit_for(endpoint, 3, using="second")

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(fan_out, "mark_dispatched", crash)
        with pytest.raises(Crash):
            inline.fan_out()
    assert has_waiting("second")
    assert Delivery.objects.count() == 3
    Delivery.objects.update(state="delivered", due_at=None, finished_at=timezone.now())
    EndpointFactory(tenant_id=endpoint.tenant_id)  # made after the events; it gets them by replay only
    run_path()
    assert not has_waiting("second")
    assert (Event.objects.count(), Delivery.objects.count()) == (len(refs), 3)
    assert not receiver.requests


@in_both
@pytest.mark.usefixtures("both")
def test_a_cut_event_of_the_other_database_goes_on(monkeypatch: pytest.MonkeyPatch):
    real = fan_out.plan
    monkeypatch.setattr(fan_out, "plan", lambda items, found: real(items, found, 2))
    EndpointFactory.create_batch(5, tenant_id="acme")
    emit_for("acme", using="second")
    for expected in (2, 4, 5):
        assert has_waiting("second")
        fan_out_batch(ALIAS, "second")
        assert Delivery.objects.count() == expected
    assert not has_waiting("second")


def fails(alias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every statement on one database fail, as when its server is down."""
    real = fan_out.short

    def short(used: str, work: Callable[[Any], Any], **options: Any) -> Any:
        if used == alias:
            raise OperationalError("the server is down")
        return real(used, work, **options)

    for module in (fan_out, dispatch, tick):
        monkeypatch.setattr(module, "short", short)


@in_both
@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("count", [1, 3])
def test_a_delivery_database_that_is_down_sets_nothing_aside(count: int, monkeypatch: pytest.MonkeyPatch):
    EndpointFactory(tenant_id="acme")
    emit_for("acme", count, using="second")
    with monkeypatch.context() as patch:
        fails(ALIAS, patch)
        for _ in range(4):
            with pytest.raises(OperationalError):
                fan_out_batch(ALIAS, "second")
    assert set(OutboxEntry.objects.using("second").values_list("failures", flat=True)) == {0}
    inline.fan_out()
    assert Delivery.objects.count() == count


@in_both
@pytest.mark.usefixtures("both")
def test_a_body_that_cannot_be_read_now_waits_and_holds_up_nobody(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, bell: Bell, clock: Clock
):
    endpoint = EndpointFactory()
    there = emit_for(endpoint, 6, using="second")
    inline.fan_out()
    (here,) = emit_for(endpoint)
    inline.fan_out()
    bell.take()

    def down(*_: object) -> dict[int, bytes]:
        raise OperationalError("the server is down")

    with monkeypatch.context() as patch:
        patch.setattr(contents, "_bodies", down)
        for _ in range(4):
            inline.deliver([endpoint.pk])
        assert receiver.ids() == [here.id]
        assert not bell.take().endpoint_ids
    assert set(Delivery.objects.filter(state="pending").values_list("attempts", "lapses")) == {(0, 0)}
    clock.advance(minutes=1)
    run_path()
    assert sorted(receiver.ids()) == sorted([here.id, *(ref.id for ref in there)])
    check_books()


@pytest.fixture
def lose() -> Iterator[Callable[[str], None]]:
    """End the session of this thread's connection to a database, as a restart of the server does."""

    def end(alias: str) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            (pid,) = cursor.fetchone()
        (other,) = {"default", "second"} - {alias}
        with connections[other].cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [pid])

    yield end
    for alias in ("default", "second"):
        if not connections[alias].is_usable():
            connections[alias].close()


@in_both
@pytest.mark.pg
@pytest.mark.usefixtures("both")
def test_times_are_carried_from_a_database_in_another_time_zone():
    with connections["second"].cursor() as cursor:
        cursor.execute("SET LOCAL TimeZone = 'Asia/Kolkata'")
    moment = timezone.now() - timedelta(days=2)
    EndpointFactory(tenant_id="acme")
    emit_for("acme", using="second", occurred_at=moment)
    inline.fan_out()
    assert Event.objects.get().occurred_at == moment
    assert Delivery.objects.get().occurred_at == moment


@committed_in_both
@pytest.mark.pg
@pytest.mark.usefixtures("both")
def test_a_lost_connection_to_the_other_database_is_dialled_anew(
    receiver: Receiver, clock: Clock, lose: Callable[[str], None]
):
    endpoint = EndpointFactory()
    emit_for(endpoint, using="second")
    inline.fan_out()
    lose("second")
    for _ in range(3):
        inline.deliver([endpoint.pk])
        clock.advance(minutes=1)
    assert len(receiver.requests) == 1
    assert [each.number for each in attempts_of(Delivery.objects.get())] == [1]


@committed_in_both
@pytest.mark.pg
@pytest.mark.usefixtures("both")
def test_the_tick_survives_a_lost_connection_to_the_other_database(lose: Callable[[str], None]):
    emit_for("acme", using="second")
    lose("second")
    tick.look(ALIAS)
    assert tick.look(ALIAS).fan_out


@committed_in_both
@pytest.mark.pg
@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("alias", ["default", "second"])
def test_a_fan_out_survives_a_lost_connection(alias: str, receiver: Receiver, lose: Callable[[str], None]):
    EndpointFactory(tenant_id="acme")
    emit_for("acme", 3, using="second")
    lose(alias)
    with contextlib.suppress(OperationalError):
        inline.fan_out()
    run_path()
    assert len(receiver.requests) == 3
    assert set(OutboxEntry.objects.using("second").values_list("failures", flat=True)) == {0}
