"""Erase, as the outboxes see it: in portions, in every database, up to the moment it was asked for."""

from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_attempt, make_delivery, make_endpoint, make_event
from tests.actions.erasing import CANARY, canaries, copy_of, personal, waiting_entry
from tests.actions.jobs import counts, finished, one_batch
from webhooks_app.actions import erase_outbox, key_ranges
from webhooks_app.actions import run_jobs as run_jobs_module
from webhooks_app.actions.erase import erasable, erase
from webhooks_app.actions.erase_progress import MAX_ERROR, Progress
from webhooks_app.core.states import DEAD_LETTERED, DELIVERED
from webhooks_app.models import Attempt, Event, Job, OutboxEntry
from webhooks_app.pipeline import clock, fan_out, inline

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
both = pytest.mark.django_db(databases=["default", "second"])


@pytest.fixture
def second_is_down(monkeypatch, network):
    """Let the outbox `second` not answer; call the fixture's value to start it again."""
    network(OUTBOX_DATABASES=["default", "second"])
    tries = []

    def short(alias, work):
        if alias == "second":
            tries.append(alias)
            raise OperationalError("connection refused")
        return original(alias, work)

    original = erase_outbox.short
    monkeypatch.setattr(erase_outbox, "short", short)

    def up() -> int:
        monkeypatch.setattr(erase_outbox, "short", original)
        return len(tries)

    return up


def test_what_waits_is_deleted_in_portions(monkeypatch):
    monkeypatch.setattr(erase_outbox, "BATCH", 2)
    for number in range(5):
        waiting_entry(f"evt_{number}")
    assert erasable(OPERATOR, identity_id="ann") == 5
    job = erase(OPERATOR, identity_id="ann")
    left = []
    while job.state in ("queued", "running"):
        one_batch(job)
        left.append(OutboxEntry.objects.count())
    assert left == [3, 1, 0]
    assert counts(job) == ("succeeded", 5, 5, 0)


def test_no_statement_reads_more_than_a_range_of_keys(monkeypatch):
    monkeypatch.setattr(key_ranges, "FIRST", 2)
    monkeypatch.setattr(key_ranges, "LARGEST", 8)
    ranges = []

    def read(*given, between, **more):
        ranges.append(between)
        return original(*given, between=between, **more)

    original = erase_outbox.read_labelled
    monkeypatch.setattr(erase_outbox, "read_labelled", read)
    waiting_entry("first")
    for number in range(20):
        waiting_entry(f"bob_{number}", identity_id="bob")
    last = waiting_entry("last")
    finished(erase(OPERATOR, identity_id="ann"))
    assert OutboxEntry.objects.count() == 20
    assert ranges[-1][1] == last.pk
    assert all(high - low <= 8 for low, high in ranges)


def test_a_crash_between_portions_of_an_outbox_is_made_good(monkeypatch):
    monkeypatch.setattr(erase_outbox, "BATCH", 2)
    for number in range(5):
        waiting_entry(f"evt_{number}")
    job = erase(OPERATOR, identity_id="ann")
    one_batch(job)

    def die(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(erase_outbox, "delete", die)
        with pytest.raises(SystemExit):
            run_jobs_module.run_jobs()
    assert canaries() == 3
    Job.objects.update(claimed_until=timezone.now() - DAY)
    assert finished(job).state == "succeeded"
    assert canaries() == 0


def test_entries_that_nothing_points_to_any_more_and_such_that_were_set_aside_go_too():
    waiting_entry("orphan", dispatched_at=timezone.now())
    waiting_entry("aside", set_aside_at=timezone.now(), failures=3)
    finished(erase(OPERATOR, identity_id="ann"))
    assert not OutboxEntry.objects.exists()


def test_what_is_recorded_after_the_job_was_made_is_new():
    old, original = personal(identity_id="ann"), personal(identity_id="ann")
    waiting_entry("old")
    job = erase(OPERATOR, identity_id="ann")
    late = timezone.now() + timedelta(seconds=1)
    new = personal(identity_id="ann", recorded_at=late)
    OutboxEntry.objects.filter(pk=new.outbox_id).update(recorded_at=late)
    waiting_entry("new", recorded_at=late)
    # Made after the job, of what was there before it.
    copy_of(original), copy_of(new)
    finished(job)
    assert set(OutboxEntry.objects.values_list("event_id", flat=True)) == {new.public_id, "new"}
    assert Event.objects.get(body__isnull=False).replay_of == new.pk
    assert not Event.objects.filter(pk__in=[old.pk, original.pk], outbox_id__isnull=False).exists()


def test_a_copy_whose_original_was_pruned_meanwhile_is_as_old_as_that():
    original = personal(identity_id="ann")
    job = erase(OPERATOR, identity_id="ann")
    copy = copy_of(original)
    Event.objects.filter(pk=copy.pk).update(recorded_at=timezone.now() + timedelta(seconds=1))
    original.delete()
    OutboxEntry.objects.all().delete()
    finished(job)
    assert canaries() == 0


@both
def test_what_a_database_recorded_whose_clock_is_ahead_was_there_before(network, monkeypatch):
    network(OUTBOX_DATABASES=["default", "second"])
    ahead = {"default": timedelta(), "second": timedelta(minutes=5)}
    monkeypatch.setattr(clock, "db_now", lambda alias: timezone.now() + ahead[alias])
    waiting_entry(using="second", recorded_at=timezone.now() + timedelta(minutes=4))
    job = erase(OPERATOR, identity_id="ann")
    ahead["second"] = timedelta()
    finished(job)
    assert not OutboxEntry.objects.using("second").exists()


def test_the_moment_of_a_job_of_an_earlier_version_is_that_of_its_creation():
    waiting_entry("old")
    job = erase(OPERATOR, identity_id="ann")
    Job.objects.update(params={"identity_id": "ann"})
    waiting_entry("new", recorded_at=timezone.now() + timedelta(seconds=1))
    job.refresh_from_db()
    assert Progress.of(job).before == job.created_at
    finished(job)
    assert OutboxEntry.objects.get().event_id == "new"


def test_an_event_whose_fan_out_is_cut_gets_no_further_deliveries(monkeypatch):
    endpoints = [make_endpoint() for _ in range(3)]
    event = personal(identity_id="ann", fanned_out_at=None, fan_out_cursor=endpoints[0].pk)
    OutboxEntry.objects.update(dispatched_at=None)
    make_delivery(endpoints[0], event)
    finished(erase(OPERATOR, identity_id="ann"))
    inline.fan_out()
    assert not fan_out.fan_out_own("default").events
    assert event.deliveries.get().state == DEAD_LETTERED


def test_a_reused_key_of_an_outbox_that_was_set_back_is_not_ours():
    event = personal(identity_id="ann")
    OutboxEntry.objects.filter(pk=event.outbox_id).update(event_id="another", identity_id="bob")
    finished(erase(OPERATOR, identity_id="ann"))
    assert OutboxEntry.objects.get().event_id == "another"


@pytest.mark.django_db(databases=["default", "second"])
def test_bodies_in_other_databases(network):
    network(OUTBOX_DATABASES=["default", "second"])
    event = make_event(identity_id="ann")
    entry = OutboxEntry.objects.get()
    values = {"type": "a", "environment": "live", "identity_id": "ann", "occurred_at": timezone.now()}
    there = OutboxEntry.objects.using("second")
    far = there.create(event_id=event.public_id, body=CANARY, dispatched_at=timezone.now(), **values)
    there.create(event_id="waiting", body=CANARY, **values)
    entry.delete()
    Event.objects.update(outbox_alias="second", outbox_id=far.pk)
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 2, 2, 0)
    assert not there.exists()


def test_what_can_be_reached_is_removed_and_the_rest_stays_known():
    row, away, here = make_endpoint(), personal(identity_id="ann"), personal(identity_id="ann")
    entry, last = away.outbox_id, personal(identity_id="ann")
    Event.objects.filter(pk=away.pk).update(outbox_alias="gone")
    OutboxEntry.objects.filter(pk=entry).update(identity_id="another's")
    deliveries = [make_delivery(row, event) for event in (away, here, last)]
    attempt = make_attempt(make_delivery(make_endpoint(), away, state=DELIVERED))
    Attempt.objects.filter(pk=attempt.pk).update(reply_body=CANARY)
    copy_of(away)
    job = finished(erase(OPERATOR, identity_id="ann"))
    assert (job.state, job.done, job.skipped, job.params) == ("failed", 3, 1, {})
    assert job.error == (
        "outbox_unreachable: gone (ConnectionDoesNotExist); "
        "make them answer under these names in DATABASES, and erase again"
    )
    away.refresh_from_db()
    assert (away.outbox_alias, away.outbox_id, canaries()) == ("gone", entry, 1)
    assert {each.event.deliveries.first().state for each in deliveries} == {DEAD_LETTERED}
    # Mended, as the error says.
    Event.objects.filter(pk=away.pk).update(outbox_alias="default")
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 1, 1, 0)
    assert canaries() == 0


@both
def test_an_outbox_that_does_not_answer_is_asked_once_and_named(second_is_down, monkeypatch):
    monkeypatch.setattr("webhooks_app.actions.erase.BATCH", 1)
    there = OutboxEntry.objects.using("second")
    far = waiting_entry("far", using="second", dispatched_at=timezone.now())
    waiting_entry("far_waiting", using="second")
    here = personal(identity_id="ann")
    for _ in range(3):
        event = make_event(identity_id="ann")
        OutboxEntry.objects.filter(pk=event.outbox_id).delete()
        Event.objects.filter(pk=event.pk).update(outbox_alias="second", outbox_id=far.pk)
    job = erase(OPERATOR, identity_id="ann")
    assert (finished(job).state, finished(job).done, finished(job).skipped) == ("failed", 1, 3)
    assert finished(job).error.startswith("outbox_unreachable: second (OperationalError); ")
    here.refresh_from_db()
    assert (here.outbox_id, there.count()) == (None, 2)
    # Counted, asked for its clock, and once by the job: whoever waits for a connection waits no more often.
    assert second_is_down() == 3
    assert counts(finished(erase(OPERATOR, identity_id="ann"))) == ("succeeded", 4, 4, 0)
    assert not there.exists()


def test_the_error_fits_its_column():
    job = Job(params={"unreachable": {f"outbox{number}": "OperationalError" for number in range(20)}})
    job.created_at = timezone.now()
    error = Progress.of(job).error()
    assert len(error) <= MAX_ERROR
    assert error.endswith("erase again")


def test_the_delivery_database_itself_is_waited_for(monkeypatch):
    waiting_entry()
    job = erase(OPERATOR, identity_id="ann")

    def away(*_, **__):
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(erase_outbox, "short", away)
        one_batch(job)
    assert (job.state, canaries()) == ("running", 1)
    Job.objects.update(claimed_until=None)
    assert finished(job).state == "succeeded"
