"""After an erasure nothing of a payload is in any column of any table, whatever goes on beside it."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint
from tests.actions.erasing import gone_on
from tests.pipeline.driving import claim, committed_in_both, in_threads, insist, send
from tests.pipeline.receiver import Receiver, reply
from webhooks_app.actions import erase as erase_module
from webhooks_app.actions import erase_outbox
from webhooks_app.actions.erase import erase
from webhooks_app.actions.jobs import OPEN
from webhooks_app.actions.recover import recover
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resend import resend
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.destinations import https
from webhooks_app.events import emit
from webhooks_app.exceptions import ActionError
from webhooks_app.models import Delivery, Endpoint, Event, Job, OutboxEntry
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import inline

pytestmark = [committed_in_both, pytest.mark.pg]

ALIASES = ("default", "second")
PAYLOAD, OTHERS = "very-personal-7f3a", "somebody-elses-7f3a"
DAY = timedelta(days=1)


def places(marker: str) -> set[str]:
    """Return where the text is, as alias.table.column, in all tables of all databases."""
    found = set()
    for alias in ALIASES:
        for table in connections[alias].introspection.table_names():
            with connections[alias].cursor() as cursor:
                cursor.execute(f'SELECT * FROM "{table}"')
                names = [column.name for column in cursor.description]
                for row in cursor.fetchall():
                    cells = zip(names, row, strict=True)
                    found |= {f"{alias}.{table}.{name}" for name, cell in cells if marker in text_of(cell)}
    return found


def text_of(cell: Any) -> str:
    return bytes(cell).decode(errors="replace") if isinstance(cell, bytes | memoryview) else str(cell)


class Echoing(Receiver):
    """Answers every request with what it was sent, after a moment; every other time as a failure."""

    def post(self, request: Request) -> Any:
        self.requests.append(request)
        time.sleep(0.002)
        status = 500 if len(self.requests) % 2 else 200
        return reply(status, body=request.body, x_echo=request.body.decode())

    def payloads(self) -> int:
        return sum(PAYLOAD.encode() in request.body for request in self.requests)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Echoing:
    echoing = Echoing()
    monkeypatch.setattr(https, "transport", lambda: echoing)
    return echoing


@pytest.fixture
def endpoints(network: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> list[Endpoint]:
    """Endpoints with and without order; portions are small, so that much can come between two."""
    network(OUTBOX_DATABASES=list(ALIASES))
    for module, name, value in ((erase_module, "BATCH", 4), (erase_outbox, "BATCH", 3)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(erase_module, "REST", 0.02)
    return [make_endpoint(), make_endpoint(ordering="fifo"), make_endpoint(policy="exponential")]


def emitted(count: int, *, identity: str = "ann", text: str = PAYLOAD, using: str = "default") -> None:
    for number in range(count):
        with transaction.atomic(using=using):
            emit("order.paid", {"n": number, "text": text}, tenant="acme", identity=identity, using=using)


def deliver(endpoints: list[Endpoint]) -> None:
    Delivery.objects.filter(state="pending", due_at__isnull=False).update(due_at=timezone.now())
    insist(send(claim(*endpoints)))


def everywhere(endpoints: list[Endpoint]) -> None:
    """Leave payloads in every place there is: answered, dead, copied, waiting, set aside."""
    emitted(8), emitted(4, using="second"), emitted(3, identity="bob", text=OTHERS)
    inline.fan_out()
    deliver(endpoints)
    replay(OPERATOR, endpoints[0], since=timezone.now() - DAY, webhook_id="new")
    deliver(endpoints)
    Delivery.objects.filter(endpoint=endpoints[2], state="pending").update(
        state="exhausted", due_at=None, finished_at=timezone.now()
    )
    emitted(4), emitted(4, using="second")
    aside = OutboxEntry.objects.filter(dispatched_at=None).first()
    OutboxEntry.objects.filter(pk=aside.pk).update(set_aside_at=timezone.now(), failures=3)


def resend_any(place: int) -> None:
    keys = list(Delivery.objects.order_by("pk").values_list("pk", flat=True))
    resend(OPERATOR, Delivery.objects.get(pk=keys[place % len(keys)]))


def while_open(job: Job, work: Callable[[int], object]) -> Callable[[], int]:
    """Return a work that goes on, past every refusal, until the job has ended."""

    def run() -> int:
        rounds = 0
        while Job.objects.get(pk=job.pk).state in OPEN:
            with suppress(ActionError):
                work(rounds)
            rounds += 1
        return rounds

    return run


def recover_all(endpoint: Endpoint) -> None:
    recover(OPERATOR, endpoint, since=timezone.now() - DAY)
    run_jobs()


def test_nothing_is_left_anywhere(receiver: Echoing, endpoints: list[Endpoint]):
    everywhere(endpoints)
    assert {place.rpartition("_app_")[2] for place in places(PAYLOAD)} == {
        "outboxentry.body",
        "event.body",
        "attempt.reply_body",
        "attempt.reply_headers",
    }
    job = erase(OPERATOR, tenant_id="acme", identity_id="ann")
    left: list[set[str]] = []

    def work() -> None:
        gone_on(job)
        left.append(places(PAYLOAD))

    first, second, third = endpoints
    beside = (
        lambda _: deliver(endpoints),
        lambda _: inline.fan_out(),
        lambda _: replay(OPERATOR, first, since=timezone.now() - DAY, webhook_id="new"),
        lambda _: replay(OPERATOR, second, since=timezone.now() - DAY, webhook_id="same"),
        resend_any,
        lambda _: recover_all(third),
    )
    rounds = in_threads(work, *(while_open(job, each) for each in beside), seconds=60)
    assert all(rounds[1:])
    job.refresh_from_db()
    assert (job.state, left) == ("succeeded", [set()])
    check_afterwards(receiver, endpoints)


def check_afterwards(receiver: Echoing, endpoints: list[Endpoint]) -> None:
    """Whatever is begun after the end of the job finds nothing either, and other people's events go on."""
    sent = receiver.payloads()
    inline.fan_out()
    for each in endpoints:
        replay(OPERATOR, each, since=timezone.now() - DAY)
    while Delivery.objects.filter(state="pending", event__identity_id="ann").exists():
        deliver(endpoints)
    assert receiver.payloads() == sent
    assert places(PAYLOAD) == set()
    assert "default.webhooks_app_outboxentry.body" in places(OTHERS)
    assert Event.objects.filter(identity_id="bob", outbox_id__isnull=False).count() == 3
