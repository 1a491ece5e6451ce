"""Fan-out in turns: nobody's backlog delays another's event, and no order that matters is broken."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from webhooks_app.events import emit
from webhooks_app.models import Delivery, Endpoint, Event, OutboxEntry
from webhooks_app.pipeline import fan_out, inline, plan, turns
from webhooks_app.pipeline.dispatch import has_waiting
from webhooks_app.pipeline.fan_out import Batch, fan_out_batch

from .driving import ALIAS, committed, in_threads
from .factories import EndpointFactory, emit_for

pytestmark = pytest.mark.django_db


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make batches small: events, deliveries and tenants at most."""

    def change(events: int, *, deliveries: int = 5_000, tenants: int = turns.TENANTS) -> None:
        monkeypatch.setattr(fan_out, "MAX_EVENTS", events)
        monkeypatch.setattr(fan_out, "plan", lambda items, found: plan.plan(items, found, deliveries))
        monkeypatch.setattr(turns, "TENANTS", tenants)

    return change


def batch() -> Batch:
    return fan_out_batch(ALIAS, ALIAS)


def batches() -> Iterator[Batch]:
    """Fan out batch after batch until nothing waits."""
    while has_waiting(ALIAS):
        done = batch()
        assert done.events, "a batch without events, and yet some wait"
        yield done


def indexed() -> list[tuple[str | None, str]]:
    """Return tenant and id of what was fanned out, in the order of the index."""
    return list(Event.objects.order_by("pk").values_list("tenant_id", "public_id"))


def tenants_of(done: list[tuple[str | None, str]]) -> dict[str | None, int]:
    counts: dict[str | None, int] = defaultdict(int)
    for tenant, _ in done:
        counts[tenant] += 1
    return dict(counts)


def test_what_fits_into_a_batch_keeps_the_order_of_the_outbox(limit: Callable[..., None]):
    limit(40)
    everybody = EndpointFactory(tenant_id=None)
    refs = [ref for turn in range(10) for tenant in ("c", "a", None, "b") for ref in emit_for(tenant)]
    assert not batch().more
    assert [public_id for _, public_id in indexed()] == [ref.id for ref in refs]
    rows = Delivery.objects.filter(endpoint=everybody).order_by("position").select_related("event")
    assert [row.event.public_id for row in rows] == [ref.id for ref in refs]


def test_one_event_behind_a_backlog_comes_with_the_next_batch(limit: Callable[..., None]):
    limit(20)
    mine = EndpointFactory(tenant_id="b")
    EndpointFactory(tenant_id="a")
    emit_for("a", 100)
    batch()
    (ref,) = emit_for("b")
    done = batch()
    assert done.more
    assert Delivery.objects.get(endpoint=mine).event.public_id == ref.id
    assert tenants_of(indexed()) == {"a": 39, "b": 1}


def test_a_batch_of_turns_is_in_the_order_of_the_outbox(limit: Callable[..., None]):
    limit(6)
    everybody = EndpointFactory(tenant_id=None)
    for _ in range(10):
        for tenant in ("c", "b", "a"):
            emit_for(tenant)
    batch()
    assert [tenant for tenant, _ in indexed()] == ["c", "b", "a", "c", "b", "a"]
    rows = Delivery.objects.filter(endpoint=everybody).order_by("position").select_related("event")
    assert [row.event.tenant_id for row in rows] == ["c", "b", "a", "c", "b", "a"]


def test_shares_that_nobody_needs_pass_on(limit: Callable[..., None]):
    limit(20)
    for tenant, count in (("a", 100), ("b", 3), ("c", 5), (None, 1)):
        emit_for(tenant, count)
    batch()
    assert tenants_of(indexed()) == {"a": 11, "b": 3, "c": 5, None: 1}


@pytest.mark.parametrize(
    ("wanted", "limit", "shares"),
    [
        ({"a": 9, "b": 9}, 10, {"a": 5, "b": 5}),
        ({"a": 9, "b": 1}, 10, {"a": 9, "b": 1}),
        ({"a": 99, "b": 1, "c": 99}, 10, {"a": 4, "b": 1, "c": 5}),
        ({"a": 99, "b": 2, "c": 3, "d": 4}, 12, {"a": 4, "b": 2, "c": 3, "d": 3}),
        ({None: 99}, 7, {None: 7}),
        ({}, 7, {}),
    ],
)
def test_shares(wanted: dict[str | None, int], limit: int, shares: dict[str | None, int]):
    assert turns.divide(wanted, limit) == shares


def test_entries_without_tenant_are_one_tenants(limit: Callable[..., None]):
    limit(10)
    EndpointFactory(tenant_id=None)
    emit_for(None, 50)
    assert batch().events == 10
    emit_for("a", 50)
    batch()
    assert tenants_of(indexed()) == {None: 15, "a": 5}
    assert sum(done.events for done in batches()) == 80


def test_every_owner_keeps_its_order_while_tenants_take_turns(limit: Callable[..., None]):
    limit(9, deliveries=25, tenants=4)
    chance = Random(20)
    tenants = [*"abcdefg", None]
    for tenant in tenants:
        EndpointFactory.create_batch(2, tenant_id=tenant)
    for _ in range(150):
        emit_for(chance.choice(tenants), chance.choice([1, 1, 5]), owner=("order", str(chance.randrange(3))))
    total = OutboxEntry.objects.count()
    assert sum(len(done.dispatched) for done in batches()) == total
    seen: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in Delivery.objects.order_by("position").select_related("event"):
        seen[row.endpoint_id, row.event.tenant_id, row.event.owner_id].append(row.event.sequence)
    assert len(seen) > 40
    for numbers in seen.values():
        assert numbers == list(range(1, len(numbers) + 1))


def test_more_tenants_than_a_batch_has_turns_for():
    """Each has its turn within as many batches as it takes to go round once."""
    tenants = [f"tenant-{number:03}" for number in range(450)]
    for _ in range(2):
        with transaction.atomic():
            for tenant in tenants:
                emit("order.paid", {}, tenant=tenant)
    for _ in range(math.ceil(len(tenants) / turns.TENANTS)):
        batch()
    assert tenants_of(indexed()).keys() == set(tenants)
    assert sum(1 for _ in batches()) <= 3
    assert set(tenants_of(indexed()).values()) == {2}


def test_tenants_that_always_have_more_cannot_hide_the_others(limit: Callable[..., None]):
    limit(8, tenants=3)
    for tenant in "abcdefgh":
        emit_for(tenant, 10)
    for _ in range(3):
        for tenant in "abc":
            emit_for(tenant, 10)
        batch()
    assert tenants_of(indexed()).keys() == set("abcdefgh")


def test_a_tenants_many_deliveries_do_not_delay_another(limit: Callable[..., None]):
    """A batch that is full of the deliveries of one event goes on with the next tenant."""
    limit(100, deliveries=5)
    many = EndpointFactory.create_batch(12, tenant_id="a")
    mine = EndpointFactory(tenant_id="b")
    emit_for("a", 3)
    emit_for("b")
    batch()
    assert not Delivery.objects.filter(endpoint=mine).exists()
    batch()
    assert Delivery.objects.filter(endpoint=mine).count() == 1
    list(batches())
    assert Delivery.objects.count() == 37
    for endpoint in many:
        rows = Delivery.objects.filter(endpoint=endpoint).order_by("position")
        assert [row.event_id for row in rows] == sorted(row.event_id for row in rows)


def test_many_small_tenants_behind_one_with_many_deliveries(limit: Callable[..., None]):
    limit(100, deliveries=10)
    EndpointFactory.create_batch(4, tenant_id="b")
    for tenant in "acdef":
        EndpointFactory(tenant_id=tenant)
    emit_for("b", 20)
    for tenant in "acdef":
        emit_for(tenant)
    batch()
    assert tenants_of(indexed()) == dict.fromkeys("abcdef", 1) | {"b": 2}


def test_whoever_starts_in_the_middle_says_that_there_is_more(limit: Callable[..., None]):
    limit(7)
    for tenant in "abc":
        emit_for(tenant, 3)
    fan_out._after[ALIAS] = "b"
    done = batch()
    assert (done.events, done.more) == (3, True)


def test_a_full_batch_says_that_there_is_more_whatever_comes_behind(limit: Callable[..., None]):
    limit(100, deliveries=3)
    EndpointFactory.create_batch(4, tenant_id="a", events=["order.paid"])
    emit_for("a")
    emit_for("a", type="order.unwanted")
    assert batch().more
    assert not batch().more
    assert not has_waiting(ALIAS)


@pytest.mark.parametrize("after", [None, "", "b", "nobody", "zzz"])
def test_wherever_it_starts_nothing_is_left_out(after: str | None, limit: Callable[..., None]):
    limit(7)
    for tenant in ("a", "b", None, "c"):
        emit_for(tenant, 6)
    fan_out._after[ALIAS] = after
    assert sum(done.events for done in batches()) == 24
    assert batch() == Batch()
    emit_for("a", 3)
    fan_out._after[ALIAS] = after
    inline.fan_out()
    assert not has_waiting(ALIAS)


def test_what_commits_late_in_a_backlog_is_not_skipped(limit: Callable[..., None]):
    """B040: lower keys may commit after higher ones were fanned out."""
    limit(5)
    for tenant in "abc":
        emit_for(tenant, 12)
    late = list(OutboxEntry.objects.order_by("pk").values_list("pk", flat=True)[::5])
    OutboxEntry.objects.filter(pk__in=late).update(dispatched_at=timezone.now())
    for _ in range(3):
        batch()
    OutboxEntry.objects.filter(pk__in=late).update(dispatched_at=None)
    assert 15 + sum(done.events for done in batches()) == 36


def test_what_commits_while_shares_are_counted_breaks_no_order(
    limit: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    """An owner's two entries that become visible after the first look are taken both, or the first alone."""
    limit(6)
    EndpointFactory(tenant_id="a")
    early = emit_for("a", 2, owner=("order", "1"))
    emit_for("a", 2)
    emit_for("b", 20)
    hidden = OutboxEntry.objects.filter(event_id__in=[ref.id for ref in early])
    hidden.update(dispatched_at=timezone.now())
    real = turns._found

    def found(*values: Any) -> Any:
        wanted = real(*values)
        hidden.update(dispatched_at=None)
        emit_for("a", owner=("order", "1"))
        return wanted

    with monkeypatch.context() as patch:
        patch.setattr(turns, "_found", found)
        batch()
    list(batches())
    rows = Delivery.objects.filter(event__owner_id="1").order_by("position").select_related("event")
    assert [row.event.sequence for row in rows] == [1, 2, 3]


@pytest.mark.django_db(databases=["default", "second"])
def test_another_databases_tenants_take_turns_too(limit: Callable[..., None], configure: Callable[..., None]):
    configure(OUTBOX_DATABASES=["default", "second"])
    limit(10)
    mine = EndpointFactory(tenant_id="b")
    emit_for("a", 50, using="second")
    emit_for("b", using="second")
    done = fan_out_batch(ALIAS, "second")
    assert (done.events, done.more) == (10, True)
    assert Delivery.objects.filter(endpoint=mine).count() == 1
    assert OutboxEntry.objects.using("second").filter(dispatched_at=None).count() == 41
    inline.fan_out()
    assert not has_waiting("second")


@committed
@pytest.mark.pg
def test_two_at_once_in_a_backlog_make_nothing_twice_and_keep_the_order(limit: Callable[..., None]):
    limit(7, deliveries=20, tenants=3)
    tenants = "abcde"
    for tenant in tenants:
        EndpointFactory.create_batch(3, tenant_id=tenant)
    for _ in range(12):
        for tenant in tenants:
            emit_for(tenant, 2, owner=("order", tenant))

    def run() -> int:
        done = 0
        while has_waiting(ALIAS):
            done += len(batch().dispatched)
        return done

    assert sum(in_threads(run, run, run)) == 120
    assert Delivery.objects.count() == 360
    for endpoint in Endpoint.objects.all():
        rows = Delivery.objects.filter(endpoint=endpoint).order_by("position").select_related("event")
        assert [row.event.sequence for row in rows] == list(range(1, 25))


@committed
@pytest.mark.pg
def test_an_entry_that_commits_after_its_neighbours_were_fanned_out(limit: Callable[..., None]):
    limit(4)
    EndpointFactory(tenant_id="a")
    emit_for("b", 20)
    with transaction.atomic():
        (first,) = emit_for("a", owner=("order", "1"))
        in_threads(lambda: emit_for("a", 3, owner=("order", "2")), lambda: emit_for("b", 3))
        in_threads(lambda: [batch() for _ in range(2)])
        assert Delivery.objects.count() == 3
    emit_for("a", owner=("order", "1"))
    list(batches())
    rows = Delivery.objects.filter(event__owner_id="1").order_by("position").select_related("event")
    assert [row.event.sequence for row in rows] == [1, 2]
    assert rows[0].event.public_id == first.id


@pytest.mark.skipif("connection.vendor != 'sqlite'")
def test_sqlite_reads_what_waits_by_its_index(limit: Callable[..., None]):
    limit(5)
    for tenant in ("a", "b", None):
        emit_for(tenant, 4)
    asked: list[tuple[str, Any]] = []

    def wrap(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "FROM webhooks_app_outboxentry" in sql:
            asked.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrap):
        inline.fan_out()
        has_waiting(ALIAS)
    assert len(asked) > 8
    with connection.cursor() as cursor:
        for sql, params in asked:
            cursor.execute("EXPLAIN QUERY PLAN " + sql, params)
            for row in cursor.fetchall():
                assert "outboxentry" not in row[3] or "webhooks_outbox_by_tenant" in row[3], sql
