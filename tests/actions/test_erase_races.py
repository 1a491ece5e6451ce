"""Erase beside what else is going on: requests under way, replays, fan-outs, crashes."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from tests.actions.builders import (
    OPERATOR,
    URL,
    leased,
    make_attempt,
    make_delivery,
    make_endpoint,
    together,
    wait_for_a_blocked_session,
)
from tests.actions.erasing import CANARY, canaries, copy_of, gone_on, personal
from tests.actions.jobs import counts, finished, one_batch
from tests.pipeline.driving import claim, committed, send
from tests.pipeline.receiver import Receiver, reply
from webhooks_app.actions import erase as erase_module
from webhooks_app.actions import replay as replay_module
from webhooks_app.actions.erase import REST, erase
from webhooks_app.actions.jobs import cancel_job
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resend import resend
from webhooks_app.core.states import DEAD_LETTERED, DELIVERED
from webhooks_app.destinations import https
from webhooks_app.events import emit
from webhooks_app.exceptions import Conflict
from webhooks_app.models import Attempt, Delivery, Event, Job, OutboxEntry
from webhooks_app.pipeline import erasure, fan_out, inline

pytestmark = committed
pg = pytest.mark.pg

DAY = timedelta(days=1)
ECHO = {"body": CANARY, "x_echo": CANARY.decode()}


@pytest.fixture
def receiver(monkeypatch) -> Receiver:
    """Answers by script, without a network."""
    scripted = Receiver()
    monkeypatch.setattr(https, "transport", lambda: scripted)
    return scripted


class Halt:
    """A place where a thread stops until it is told to go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._free = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self._free.wait(20), "nobody lets it go on"

    def go_on(self) -> None:
        self._free.set()

    def before(self, function):
        """Return a function that stops here, the first time, before it does what `function` does."""

        def stopping(*given, **named):
            if not self.reached.is_set():
                self()
            return function(*given, **named)

        return stopping


def beside(work):
    """Run it in a thread; the returned function waits for its end and gives the result."""
    result = []

    def run():
        try:
            result.append(work())
        except Exception as error:
            result.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def joined():
        thread.join(20)
        assert not thread.is_alive(), "it hangs"
        return result[0]

    return joined


def replay_new(endpoint, event) -> int:
    return replay(OPERATOR, endpoint, event_ids=[event.public_id], webhook_id="new")


def with_envelope(event: Event) -> Event:
    """Give the event a body that a copy can be made of."""
    body = b'{"id":"%b","data":"%b"}' % (event.public_id.encode(), CANARY)
    OutboxEntry.objects.filter(pk=event.outbox_id).update(body=body)
    return event


def replies() -> list[tuple[bytes, list[object]]]:
    return [(bytes(each.reply_body), each.reply_headers) for each in Attempt.objects.all()]


@pg
def test_a_copy_that_is_being_made_is_waited_for(monkeypatch):
    row, event = make_endpoint(), with_envelope(personal(identity_id="ann"))
    halt = Halt()
    monkeypatch.setattr(replay_module, "_check_open", halt.before(replay_module._check_open))
    copying = beside(lambda: replay_new(row, event))
    assert halt.reached.wait(10)
    job = erase(OPERATOR, identity_id="ann")
    erasing = beside(lambda: finished(job))
    wait_for_a_blocked_session()
    halt.go_on()
    assert copying() == 1
    assert erasing().state == "succeeded"
    assert Event.objects.filter(replay_of=event.pk, body=None).count() == 1
    assert canaries() == 0
    assert Delivery.objects.get().state == DEAD_LETTERED


@pg
def test_a_copy_that_comes_too_late_is_not_made(monkeypatch):
    row, event = make_endpoint(), with_envelope(personal(identity_id="ann"))
    halt = Halt()
    monkeypatch.setattr(erasure, "_end_fan_out", halt.before(erasure._end_fan_out))
    job = erase(OPERATOR, identity_id="ann")
    erasing = beside(lambda: finished(job))
    assert halt.reached.wait(10)
    copying = beside(lambda: replay_new(row, event))
    wait_for_a_blocked_session()
    halt.go_on()
    assert erasing().state == "succeeded"
    assert copying() == 0
    assert canaries() == Delivery.objects.count() == 0
    assert not Event.objects.filter(replay_of=event.pk).exists()


def test_a_copy_that_is_committed_behind_the_walk_is_found_with_its_original(monkeypatch):
    row, event = make_endpoint(), with_envelope(personal(identity_id="ann"))
    nobodys = with_envelope(personal(identity_id="ann", tenant_id=None))
    Event.objects.filter(pk=nobodys.pk).update(type="webhook.none")
    copies = []

    def look(steps, alias, job):
        portion = original(steps, alias, job)
        if not copies:
            # The walk has passed these keys: they are read by nobody any more.
            copies.extend([copy_of(event), copy_of(nobodys)])
            Event.objects.filter(pk=copies[1].pk).update(tenant_id=None)
            make_delivery(row, copies[0])
        return portion

    original = erase_module.EraseSteps.look
    monkeypatch.setattr(erase_module.EraseSteps, "look", look)
    assert finished(erase(OPERATOR, identity_id="ann")).state == "succeeded"
    assert canaries() == 0
    assert Delivery.objects.get().state == DEAD_LETTERED


def test_a_reply_to_what_was_under_way_is_forgotten(receiver: Receiver):
    taking, refusing = make_endpoint(), make_endpoint(url=URL + "/refused")
    receiver.always(taking, reply(200, **ECHO)), receiver.always(refusing, reply(500, **ECHO))
    event = personal(identity_id="ann")
    rows = [make_delivery(each, event) for each in (taking, refusing)]
    record = send(claim(taking, refusing))
    assert {request.body for request in receiver.requests} == {CANARY}
    job = finished(erase(OPERATOR, identity_id="ann"))
    # Nothing is left of the body, but somebody still has it in memory.
    assert (job.state, canaries()) == ("running", 0)
    record()
    assert canaries() == 2
    assert counts(gone_on(job)) == ("succeeded", 1, 1, 0)
    assert replies() == [(b"", [])] * 2
    states = [Delivery.objects.values_list("state", "attempts").get(pk=row.pk) for row in rows]
    assert states == [(DELIVERED, 1), (DEAD_LETTERED, 1)]
    assert not claim(taking, refusing).jobs


def test_a_job_that_waits_rests_and_can_be_cancelled():
    make_delivery(make_endpoint(), personal(identity_id="ann"), **leased())
    job = finished(erase(OPERATOR, identity_id="ann"))
    for _ in range(2):
        assert timedelta() < job.claimed_until - timezone.now() <= timedelta(seconds=REST)
        Job.objects.update(claimed_until=timezone.now())
        one_batch(job)
        assert job.state == "running"
    cancel_job(OPERATOR, job)
    assert gone_on(job).state == "cancelled"
    assert job.params == {}


def test_a_worker_that_wakes_up_when_its_claim_has_lapsed_records_nothing(receiver: Receiver):
    row = make_endpoint()
    receiver.always(row, reply(200, **ECHO))
    open_one = make_delivery(row, personal(identity_id="ann"))
    record = send(claim(row))
    # One that ended before is being sent once more, by hand.
    by_hand = make_delivery(make_endpoint(), personal(identity_id="ann"), state=DELIVERED, **leased())
    job = finished(erase(OPERATOR, identity_id="ann"))
    assert job.params["busy"] == [open_one.pk, by_hand.pk]
    Delivery.objects.update(lease_until=timezone.now() - DAY)
    assert gone_on(job).state == "succeeded"
    assert not record().attempts
    assert not Delivery.objects.filter(lease_token__isnull=False).exists()
    assert (canaries(), Attempt.objects.count()) == (0, 0)
    by_hand.refresh_from_db()
    assert by_hand.state == DELIVERED


def test_a_resend_that_is_under_way_is_waited_for_and_none_begins(receiver: Receiver):
    row, event = make_endpoint(), personal(identity_id="ann")
    delivery = make_delivery(row, event, state=DELIVERED)
    jobs = []

    def answer(request):
        jobs.append(finished(erase(OPERATOR, identity_id="ann")))
        return reply(200, **ECHO)

    receiver.always(row, answer)
    resend(OPERATOR, delivery)
    assert (jobs[0].state, canaries()) == ("running", 1)
    assert gone_on(jobs[0]).state == "succeeded"
    assert canaries() == 0
    with pytest.raises(Conflict) as caught:
        resend(OPERATOR, delivery)
    assert caught.value.code == "event_unavailable"


def test_a_replay_that_comes_too_late_ends_like_the_others(receiver: Receiver):
    row, event = make_endpoint(), personal(identity_id="ann")
    # As a job of recovery leaves it that has looked before and written after.
    finished(erase(OPERATOR, identity_id="ann"))
    late = make_delivery(row, event)
    inline.deliver([row.pk])
    late.refresh_from_db()
    assert (late.state, late.last_error, receiver.requests) == (DEAD_LETTERED, "event_unavailable", [])


@pg
def test_a_fan_out_that_has_read_the_entry_is_waited_for(monkeypatch):
    row = make_endpoint()
    with transaction.atomic():
        emit("order.paid", {"name": CANARY.decode()}, tenant="acme", identity="ann")
    halt = Halt()
    monkeypatch.setattr(fan_out, "mark_dispatched", halt.before(fan_out.mark_dispatched))
    fanning_out = beside(inline.fan_out)
    assert halt.reached.wait(10)
    job = erase(OPERATOR, identity_id="ann")
    erasing = beside(lambda: finished(job))
    wait_for_a_blocked_session()
    assert not OutboxEntry.objects.exists()
    halt.go_on()
    fanning_out()
    assert erasing().state == "succeeded"
    assert Delivery.objects.values_list("endpoint_id", "state").get() == (row.pk, DEAD_LETTERED)
    assert Event.objects.values_list("outbox_id", "outbox_alias").get() == (None, None)


@pg
def test_two_erasures_of_the_same_events_do_not_hinder_each_other(monkeypatch):
    monkeypatch.setattr(erase_module, "BATCH", 3)
    rows = [make_endpoint() for _ in range(2)]
    for _ in range(10):
        event = personal(identity_id="ann", subject="order/1")
        attempt = make_attempt(make_delivery(rows[0], event))
        Attempt.objects.filter(pk=attempt.pk).update(reply_body=CANARY)
        make_delivery(rows[1], copy_of(event))
    jobs = [erase(OPERATOR, identity_id="ann"), erase(OPERATOR, tenant_id="acme")]
    together(*[lambda job=job: gone_on(job) for job in jobs])
    for job in jobs:
        assert gone_on(job).state == "succeeded"
    assert canaries() == 0
    assert set(Delivery.objects.values_list("state", flat=True)) == {DEAD_LETTERED}


def test_a_crash_while_it_waits_is_made_good(monkeypatch, receiver: Receiver):
    row = make_endpoint()
    receiver.always(row, reply(200, **ECHO))
    delivery = make_delivery(row, personal(identity_id="ann"))
    record = send(claim(row))
    job = finished(erase(OPERATOR, identity_id="ann"))
    record()

    def die(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_forget_replies", die)
        Job.objects.update(claimed_until=None)
        with pytest.raises(SystemExit):
            one_batch(job)
    assert canaries() == 1
    assert gone_on(job).state == "succeeded"
    delivery.refresh_from_db()
    assert (canaries(), delivery.state) == (0, DELIVERED)
