"""Steps along a policy: an endpoint of it, events at the clock's time, and what came of them."""

import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from tests.actions.builders import make_endpoint
from tests.conformance.consumer import Consumer
from tests.conformance.driving import SECRET, now
from tests.net.servers import reply
from tests.pipeline.conftest import Clock
from webhooks_app.events import emit_many
from webhooks_app.models import Attempt, AuditEntry, Delivery, Endpoint, EndpointState, Event, OutboxEntry
from webhooks_app.pipeline import inline

Capture = Callable[..., AbstractContextManager[Any]]

OK = reply()
OOPS = reply("500 Oops", b"")
LONGEST = 40
# Every final status but 410, which ends more than a delivery.
STATUSES = (*range(200, 410), *range(411, 600))
# An endpoint that is judged answer by answer: nothing that adds up over several.
ALONE: dict[str, Any] = {"breaker": False, "auto_disable": False}


class Walk:
    """A consumer, its endpoint under a policy, and a clock to move."""

    def __init__(self, consumer: Consumer, clock: Clock, capture: Capture) -> None:
        self.consumer, self.clock, self._capture = consumer, clock, capture
        self.endpoint: Endpoint

    def subscribe(self, policy: str, overrides: dict[str, Any] | None = None, **values: Any) -> Endpoint:
        """Register the consumer's endpoint, of the tenant acme; it wants everything."""
        given = {"url": self.consumer.url, "secret": SECRET, "policy": policy, **values}
        self.endpoint = make_endpoint(policy_overrides=overrides, **given)
        return self.endpoint

    def emit(self, count: int = 1, **values: Any) -> list[Delivery]:
        """Commit events that are recorded at the clock's present and let the path run; oldest first."""
        item = {"type": "order.paid", "data": {"n": 1}, "tenant": "acme", **values}
        with self._capture(execute=True), transaction.atomic():
            ids = [ref.id for ref in emit_many([item] * count)]
            moment = now()
            OutboxEntry.objects.filter(event_id__in=ids).update(recorded_at=moment, occurred_at=moment)
        rows = Delivery.objects.filter(endpoint=self.endpoint, event__public_id__in=ids)
        return list(rows.order_by("position"))

    def act(self, work: Callable[[], Any]) -> Any:
        """Do what a person does, and let the path follow."""
        with self._capture(execute=True):
            return work()

    def wait(self, **amount: float) -> None:
        """Let time pass, and tick."""
        self.clock.advance(**amount)
        inline.tick_once()

    def wait_until(self, moment: datetime) -> None:
        """Let time pass until this moment, unless it has passed already, and tick."""
        self.clock.ahead += max(moment - now(), timedelta()) + timedelta(seconds=0.05)
        inline.tick_once()

    def play(self, delivery: Delivery) -> list[Attempt]:
        """Go from due time to due time until the delivery has ended; return its attempts."""
        delivery.refresh_from_db()
        for _ in range(LONGEST):
            if delivery.due_at is None:
                return attempts_of(delivery)
            self.wait_until(delivery.due_at)
            delivery.refresh_from_db()
        raise AssertionError("it does not end")

    @property
    def state(self) -> EndpointState:
        """The endpoint's state row."""
        return EndpointState.objects.get(endpoint=self.endpoint)

    @property
    def breaker(self) -> str:
        """Where its breaker stands."""
        return self.state.breaker

    @property
    def requests(self) -> int:
        """How many requests the consumer has seen."""
        return len(self.consumer.requests)

    def answers(self, statuses: Iterable[int]) -> dict[int, tuple[str, str]]:
        """Send one event per status, answered so; return each one's state and error by status."""
        # The 429 comes last: it makes those behind it wait.
        wanted = sorted(statuses, key=lambda status: status == 429)
        self.consumer.answer(*(reply(f"{status} Odd", b"") for status in wanted))
        made = {each.pk: each for each in self.emit(len(wanted))}
        rows = Attempt.objects.filter(delivery_id__in=made, number=1)
        return {row.http_status or 0: (made[row.delivery_id].state, row.error) for row in rows}


def attempts_of(delivery: Delivery) -> list[Attempt]:
    """Return its attempts by number."""
    return list(Attempt.objects.filter(delivery=delivery).order_by("number"))


def planned(attempts: Iterable[Attempt]) -> list[float]:
    """Return the seconds that each failed attempt says the next one is away."""
    made = [each for each in attempts if each.next_attempt_at is not None]
    return [(each.next_attempt_at - each.created_at).total_seconds() for each in made]  # type: ignore[operator]


def offsets(attempts: list[Attempt]) -> list[int]:
    """Return when each attempt was made, in whole seconds after the first."""
    return [round((each.created_at - attempts[0].created_at).total_seconds()) for each in attempts]


def states(deliveries: Iterable[Delivery]) -> list[str]:
    """Return the present states of deliveries, in their order."""
    rows = dict(Delivery.objects.values_list("pk", "state"))
    return [rows[each.pk] for each in deliveries]


def told(type: str) -> list[Event]:
    """Return the operational events of a type, oldest first."""
    return list(Event.objects.filter(type=type).order_by("id"))


def heard(event: Event) -> set[int]:
    """Return the endpoints that an operational event went to."""
    assert event.fanned_out_at is not None
    return set(Delivery.objects.filter(event=event).values_list("endpoint_id", flat=True))


def audited(*actions: str) -> list[tuple[str, Any]]:
    """Return the audit's entries of these actions, oldest first, with the reason each gives."""
    rows = AuditEntry.objects.filter(action__in=actions).order_by("created_at", "id")
    return [(row.action, row.details.get("reason")) for row in rows]


def endings(records: Iterable[logging.LogRecord]) -> list[str]:
    """Return the log's lines about ended deliveries, all of them warnings."""
    lines = [record for record in records if record.name == "webhooks_app.deliveries"]
    found = [record for record in lines if " ended as " in record.getMessage()]
    assert {record.levelno for record in found} <= {logging.WARNING}
    return [record.getMessage() for record in found]


def busy(status: int, value: str | bytes) -> bytes:
    """Return an answer with Retry-After, its bytes as given."""
    raw = value.encode() if isinstance(value, str) else value
    return reply(f"{status} Busy", b"", "Retry-After: @").replace(b"@", raw)
