"""The process may die between any two statements of the path: the tick finds the rest, nothing is lost.

A crash is raised in place of each statement in turn, and at each step between them. Then time passes, and
only what the tick finds is done.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from django.db import connections

from webhooks_app.events import EventRef
from webhooks_app.models import Delivery, Endpoint, EndpointState, Event, OutboxEntry
from webhooks_app.pipeline import batch, inline, sending, tick

from .conftest import Clock
from .driving import ALIAS, attempts_of, keys_of
from .factories import EndpointFactory, emit_for
from .receiver import Receiver, headers_of, reply

in_both = pytest.mark.django_db(databases=["default", "second"])


class Crash(BaseException):
    """The process ends here."""


class Statements:
    """Counts the statements of the path, and crashes instead of one of them."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.count = 0
        self.crashed_at = ""

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if self.count == self.at:
            self.crashed_at = sql
            raise Crash
        return execute(sql, params, many, context)


@contextmanager
def watched(statements: Statements) -> Iterator[None]:
    with ExitStack() as stack:
        for alias in ("default", "second"):
            stack.enter_context(connections[alias].execute_wrapper(statements))
        yield


class Scene:
    """Two endpoints of a tenant and three events; one answer is a failure, one endpoint goes for ever."""

    def __init__(self, receiver: Receiver, outbox: str) -> None:
        self.receiver = receiver
        self.endpoints = EndpointFactory.create_batch(2, tenant_id=f"tenant of {Endpoint.objects.count()}")
        self.gone = EndpointFactory(tenant_id=self.endpoints[0].tenant_id, events=["order.paid"])
        receiver.script(self.endpoints[0], reply(200), reply(500))
        receiver.always(self.gone, reply(410))
        self.refs: list[EventRef] = emit_for(self.endpoints[0], 3, using=outbox, owner=("crash", "1"))

    def run(self) -> None:
        inline.fan_out()
        inline.deliver(keys_of([*self.endpoints, self.gone]))

    def recover(self, clock: Clock) -> None:
        """Do what the tick finds, round after round; a round is longer than a lease."""
        open_rows = Delivery.objects.filter(endpoint__in=[*self.endpoints, self.gone], state="pending")
        for _ in range(8):
            clock.advance(seconds=41)
            found = tick.look(ALIAS)
            if not (found.fan_out or found.due or open_rows.exists()):
                return
            if found.fan_out:
                inline.fan_out()
            inline.deliver(found.due)

    def check(self, *, requests: int) -> None:
        ids = [ref.id for ref in self.refs]
        deliveries = Delivery.objects.filter(event__public_id__in=ids)
        assert Event.objects.filter(public_id__in=ids).count() == 3
        assert deliveries.count() == 9
        assert set(deliveries.filter(endpoint__in=self.endpoints).values_list("state", flat=True)) == {
            "delivered"
        }
        assert set(deliveries.filter(endpoint=self.gone).values_list("state", flat=True)) <= {
            "failed_permanent",
            "dead_lettered",
        }
        for delivery in deliveries:
            numbers = [each.number for each in attempts_of(delivery)]
            assert numbers == list(range(1, delivery.attempts + 1))
            assert delivery.lease_token is None
        assert self.all_received(ids)
        assert not EndpointState.objects.get(pk=self.gone.pk).enabled
        told = Event.objects.filter(type="webhook.disabled", about_endpoint_id=self.gone.pk)
        assert told.count() == 1
        assert told.get().fanned_out_at is not None
        # Every request beyond the attempts on record was under way when the process died.
        extra = len(self.receiver.requests) - requests
        recorded = sum(delivery.attempts for delivery in deliveries)
        assert recorded <= extra <= recorded + 12

    def all_received(self, ids: list[str]) -> bool:
        return all(set(self.receiver.ids(endpoint)) == set(ids) for endpoint in self.endpoints)


def statements_of_a_run(receiver: Receiver, outbox: str) -> int:
    Scene(receiver, outbox).run()  # the first run ever makes the lock rows
    counting = Statements(None)
    scene = Scene(receiver, outbox)
    with watched(counting):
        scene.run()
    return counting.count


@in_both
@pytest.mark.parametrize("outbox", ["default", "second"])
def test_a_crash_at_any_statement_loses_nothing(
    outbox: str, receiver: Receiver, clock: Clock, configure: Callable[..., None]
):
    configure(OUTBOX_DATABASES=["default", "second"])
    last = statements_of_a_run(receiver, outbox)
    assert last > 20
    crashes: Counter[str] = Counter()
    for at in range(1, last + 1):
        scene, before = Scene(receiver, outbox), len(receiver.requests)
        statements = Statements(at)
        with watched(statements):
            try:
                scene.run()
            except Crash:
                crashes[statements.crashed_at.split()[0]] += 1
        scene.recover(clock)
        try:
            scene.check(requests=before)
        except AssertionError as error:
            error.add_note(f"crashed at statement {at}: {statements.crashed_at}")
            raise
    assert crashes.total() >= last - 3
    assert {"SELECT", "INSERT", "UPDATE"} <= crashes.keys()
    assert not OutboxEntry.objects.using(outbox).filter(dispatched_at__isnull=True).exists()


POINTS: list[tuple[Any, str]] = [
    (inline, "prepare"),
    (inline, "contents_of"),
    (batch, "send_job"),
    (sending.https, "send"),
    (batch, "judge"),
    (batch, "record"),
    (batch.announce, "recorded"),
    (inline.announce, "ended"),
]


@in_both
@pytest.mark.parametrize(("module", "name"), POINTS)
def test_a_crash_between_two_steps_loses_nothing(
    module: Any, name: str, receiver: Receiver, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    """B006, B010"""
    for call in (1, 2, 4):
        scene, before = Scene(receiver, "default"), len(receiver.requests)
        left, real = [call], getattr(module, name)

        def step(*args: Any, left: list[int] = left, real: Any = real, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                raise Crash
            return real(*args, **named)

        with monkeypatch.context() as patch:
            patch.setattr(module, name, step)
            try:
                scene.run()
            except Crash:
                assert left == [0]
        scene.recover(clock)
        scene.check(requests=before)


@in_both
def test_a_crash_after_the_receiver_took_it_sends_the_same_id_again(receiver: Receiver, clock: Clock):
    """B006"""
    endpoint = EndpointFactory()
    (ref,) = emit_for(endpoint)

    def die(request: Any) -> Any:
        raise Crash

    receiver.script(endpoint, die)
    inline.fan_out()
    with pytest.raises(Crash):
        inline.deliver([endpoint.pk])
    clock.advance(seconds=31)
    inline.deliver(tick.look(ALIAS).due)
    assert receiver.ids() == [ref.id, ref.id]
    assert [headers_of(request)["webhook-attempt"] for request in receiver.requests] == ["1", "1"]
    (row,) = attempts_of(Delivery.objects.get())
    assert (row.number, row.status) == (1, "succeeded")
