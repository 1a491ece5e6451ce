"""emit and the fate of its transaction: rollback, other hooks, rivals, a second database."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction

from tests.pipeline.conftest import Bell
from tests.pipeline.driving import committed, committed_in_both, in_threads
from webhooks_app.events import EventRef, emit, emit_many
from webhooks_app.models import OutboxEntry, OwnerSequence
from webhooks_app.pipeline import doorbell

OWNER = ("order", "7")


@pytest.fixture(autouse=True)
def bell(monkeypatch: pytest.MonkeyPatch) -> Bell:
    """Keep hints; nothing reaches a broker."""
    kept = Bell()
    monkeypatch.setattr(doorbell, "bell", lambda: kept)
    return kept


@pytest.fixture
def both(settings: Any) -> Iterator[None]:
    """Let events be recorded in either database."""
    settings.WEBHOOKS = {**settings.WEBHOOKS, "OUTBOX_DATABASES": ["default", "second"]}


@committed
def test_a_commit_wakes_the_fan_out(bell: Bell):
    with transaction.atomic():
        emit("order.paid", {})
        assert not bell.take()
    assert bell.take().fan_out


@committed
def test_a_rollback_takes_the_event_its_number_and_the_wake(bell: Bell):
    """B041"""
    with transaction.atomic():
        assert emit("order.paid", {}, owner=OWNER).sequence == 1
        transaction.set_rollback(True)
    assert not bell.take()
    assert not OutboxEntry.objects.exists()
    with transaction.atomic():
        assert emit("order.paid", {}, owner=OWNER).sequence == 1


@committed
def test_a_rolled_back_savepoint_takes_its_wake_too(bell: Bell):
    with transaction.atomic(), transaction.atomic():
        emit("order.paid", {})
        transaction.set_rollback(True)
    assert not bell.take()


def fail() -> None:
    raise RuntimeError("a hook of the host")


def emit_beside(*, before: bool) -> None:
    with transaction.atomic():
        if before:
            transaction.on_commit(fail)
        emit("order.paid", {})
        if not before:
            transaction.on_commit(fail)


@committed
def test_a_hook_that_raises_after_ours_does_not_stop_the_wake(bell: Bell):
    """B138"""
    with pytest.raises(RuntimeError, match="host"):
        emit_beside(before=False)
    assert bell.take().fan_out
    assert OutboxEntry.objects.count() == 1


@committed
def test_a_hook_that_raises_before_ours_leaves_the_event_to_the_tick(bell: Bell):
    """B138"""
    with pytest.raises(RuntimeError, match="host"):
        emit_beside(before=True)
    assert not bell.take()
    assert OutboxEntry.objects.get().dispatched_at is None


@committed
def test_our_hook_never_breaks_the_hosts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    """B138"""

    class Broken:
        def ring(self, hints: object) -> None:
            raise OSError

    ran = []
    monkeypatch.setattr(doorbell, "bell", Broken)
    with transaction.atomic():
        emit("order.paid", {})
        transaction.on_commit(lambda: ran.append(1))
    assert ran == [1]


@committed
@pytest.mark.pg
def test_the_same_id_from_two_threads_is_one_event():
    """B018, B141"""
    started = threading.Event()

    def first() -> EventRef:
        with transaction.atomic():
            ref = emit("order.paid", {}, owner=OWNER, event_id="mine")
            started.set()
            time.sleep(0.1)  # the rival waits for us
            return ref

    def second() -> tuple[EventRef, EventRef]:
        started.wait(5)
        with transaction.atomic():
            return emit("order.paid", {}, owner=OWNER, event_id="mine"), emit("order.paid", {}, owner=OWNER)

    one, (two, next_one) = in_threads(first, second)
    assert one == EventRef("mine", 1, True)
    assert two == EventRef("mine", 1, False)
    assert next_one.sequence == 2
    assert OwnerSequence.objects.get().last == 2


@committed
@pytest.mark.pg
def test_a_rival_that_rolls_back_leaves_the_id_to_the_other():
    started = threading.Event()

    def first() -> None:
        with transaction.atomic():
            emit("order.paid", {}, event_id="mine")
            started.set()
            time.sleep(0.1)  # the rival waits for us
            transaction.set_rollback(True)

    def second() -> EventRef:
        started.wait(5)
        with transaction.atomic():
            return emit("order.paid", {}, event_id="mine")

    _, ref = in_threads(first, second)
    assert ref == EventRef("mine", None, True)


@committed
@pytest.mark.pg
def test_rivals_for_many_ids_share_them_out():
    items = [{"type": "order.paid", "data": {}, "owner": OWNER, "event_id": f"e{n}"} for n in range(40)]

    def write() -> list[EventRef]:
        with transaction.atomic():
            return emit_many(items)

    results = in_threads(*[write] * 4)
    created = [ref.id for refs in results for ref in refs if ref.created]
    assert sorted(created) == sorted(item["event_id"] for item in items)
    assert len({(ref.id, ref.sequence) for refs in results for ref in refs}) == 40
    assert OwnerSequence.objects.get().last == 40


@committed
def test_the_sequence_has_neither_gap_nor_double_from_many_threads():
    def write(place: int) -> None:
        for number in range(10):
            with transaction.atomic():
                emit("order.paid", {}, owner=OWNER)
                transaction.set_rollback((number + place) % 3 == 0)

    in_threads(*[lambda place=place: write(place) for place in range(4)])
    numbers = OutboxEntry.objects.order_by("id").values_list("sequence", flat=True)
    assert list(numbers) == list(range(1, len(numbers) + 1))
    assert len(numbers) in range(20, 40)


@committed
@pytest.mark.pg
def test_batches_that_name_owners_in_opposite_order_do_not_deadlock():
    def write(names: str) -> None:
        for _ in range(15):
            with transaction.atomic():
                emit_many([{"type": "order.paid", "data": {}, "owner": ("order", name)} for name in names])

    in_threads(*[lambda names=names: write(names) for names in ("abcdef", "fedcba", "cafebd")])
    assert sorted(OwnerSequence.objects.values_list("last", flat=True)) == [45] * 6


@committed_in_both
@pytest.mark.usefixtures("both")
def test_a_second_database_has_an_outbox_of_its_own(bell: Bell):
    with transaction.atomic(using="second"):
        ref = emit("order.paid", {}, owner=OWNER, using="second")
    with transaction.atomic():
        here = emit("order.paid", {}, owner=OWNER)
    assert (ref.sequence, here.sequence) == (1, 1)
    assert OutboxEntry.objects.using("second").get().event_id == ref.id
    assert OutboxEntry.objects.get().event_id == here.id
    assert bell.take().fan_out


@committed_in_both
@pytest.mark.usefixtures("both")
def test_a_transaction_on_the_other_database_is_none():
    with pytest.raises(RuntimeError, match="atomic"), transaction.atomic(using="default"):
        emit("order.paid", {}, using="second")
    assert not connections["second"].in_atomic_block


@committed_in_both
@pytest.mark.usefixtures("both")
def test_the_wake_waits_for_the_right_database(bell: Bell):
    with transaction.atomic(using="default"), transaction.atomic(using="second"):
        emit("order.paid", {}, using="second")
        assert not bell.take()
    assert bell.take().fan_out
    with transaction.atomic(using="second"):
        emit("order.paid", {}, using="second")
        transaction.set_rollback(True, using="second")
    assert not bell.take()
    assert OutboxEntry.objects.using("second").count() == 1
