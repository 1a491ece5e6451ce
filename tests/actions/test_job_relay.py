"""The relay of slices: one at a time, begun again when it was lost, and its messages."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint
from webhooks_app import beat_schedule, tasks
from webhooks_app.actions import job_relay
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.job_relay import run_slice
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.core.states import EXHAUSTED
from webhooks_app.models import Job, PipelineLock
from webhooks_app.pipeline.pace import QUEUEING, pace

pytestmark = pytest.mark.django_db


@pytest.fixture
def job() -> Job:
    make_delivery(make_endpoint(), state=EXHAUSTED)
    return bulk_retry(OPERATOR)


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return one item for each time that a slice saw to new events."""
    looks: list[None] = []
    monkeypatch.setattr(job_relay.runner, "fan_out", lambda: looks.append(None))
    return looks


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let every slice leave something; return the slices' seconds."""
    slices: list[float] = []
    monkeypatch.setattr(job_relay, "LONGEST", 0.0)
    monkeypatch.setattr(job_relay, "run_jobs", lambda *, max_seconds: slices.append(max_seconds) or True)
    return slices


def following(baton: int | None) -> int:
    """Do a slice; return the baton of the next one, which is to come at once."""
    after = run_slice(baton)
    assert after is not None
    assert after.wait == 0
    return after.baton


def test_without_jobs_nothing_is_begun():
    assert run_slice(None) is None
    assert not PipelineLock.objects.filter(name="jobs").exists()


def test_a_relay_does_the_jobs_and_ends(job):
    assert run_slice(None) is None
    job.refresh_from_db()
    assert job.state == "succeeded"
    assert PipelineLock.objects.get(name="jobs").value == 0


def test_only_one_relay_runs_however_often_it_is_begun(job, endless):
    first = following(None)
    assert [run_slice(None) for _ in range(3)] == [None, None, None]
    second = following(first)
    assert second > first
    # A message that comes twice is not two relays.
    assert run_slice(first) is None
    assert run_slice(second) is not None
    assert len(endless) == 3


def test_a_slice_that_has_waited_long_works_longer_and_sees_to_new_events(job, looks, monkeypatch):
    now, seconds = timezone.now(), [0.0]
    monkeypatch.setattr(job_relay.clock, "db_now", lambda alias: now + timedelta(seconds=seconds[0]))
    monkeypatch.setattr(job_relay, "time", SimpleNamespace(monotonic=lambda: seconds[0]))

    def work(*, max_seconds):
        seconds[0] += max_seconds
        return True

    monkeypatch.setattr(job_relay, "run_jobs", work)
    baton = following(None)
    lasted = []
    for waited in (0.0, 0.75, 1.5, 9.0):
        seconds[0] += waited
        began = seconds[0]
        baton = following(baton)
        lasted.append(seconds[0] - began)
    # Half of the time since the slice before began, in steps, from half a second to two.
    assert lasted == [0.5, 1.0, 1.5, 2.0]
    assert len(looks) == 1 + 2 + 3


def test_beside_live_work_a_slice_is_one_batch_and_rests(job, looks, monkeypatch):
    now, seconds = timezone.now(), [1000.0]
    monkeypatch.setattr(job_relay.clock, "db_now", lambda alias: now + timedelta(seconds=seconds[0]))
    monkeypatch.setattr(job_relay, "time", SimpleNamespace(monotonic=lambda: seconds[0]))

    def work(*, max_seconds):
        asked.append(max_seconds)
        seconds[0] += 0.03
        return True

    asked: list[float] = []
    monkeypatch.setattr(job_relay, "run_jobs", work)
    pace().saw_live(seconds[0])
    baton = None
    for _ in range(4):
        after = run_slice(baton)
        baton = after.baton
        assert after.wait == pytest.approx(QUEUEING * 0.03)
        seconds[0] += after.wait
    # However long it has waited in the queue: one that waits behind live work is not to hold it up.
    seconds[0] += 5
    assert run_slice(baton) is not None
    assert asked == [0.0] * 5
    assert not looks
    assert run_slice(baton) is None


def test_a_relay_that_was_lost_is_begun_anew_after_some_seconds_and_the_old_one_ends(
    job, endless, monkeypatch
):
    lost = following(None)
    later = timezone.now() + timedelta(seconds=14)
    monkeypatch.setattr(job_relay.clock, "db_now", lambda alias: later)
    assert run_slice(None) is None
    monkeypatch.setattr(job_relay.clock, "db_now", lambda alias: later + timedelta(seconds=2))
    assert run_slice(None) is not None
    assert run_slice(lost) is None


def test_a_job_that_is_begun_while_the_relay_ends_is_not_left_to_beat(job, monkeypatch):
    def all_but_the_last_moment(*, max_seconds):
        monkeypatch.undo()
        assert not run_jobs()
        bulk_retry(OPERATOR)
        # Its own message finds the relay taken.
        assert run_slice(None) is None
        return False

    monkeypatch.setattr(job_relay, "run_jobs", all_but_the_last_moment)
    assert run_slice(following(None)) is None
    assert not Job.objects.exclude(state="succeeded").exists()
    assert PipelineLock.objects.get(name="jobs").value == 0


@pytest.mark.parametrize("queue", [None, "webhooks.bulk"])
def test_the_next_slice_goes_to_the_tail_of_the_bulk_queue(queue, job, endless, settings, monkeypatch):
    settings.WEBHOOKS = {**settings.WEBHOOKS, "BULK_QUEUE_NAME": queue}
    sent: list[Any] = []
    monkeypatch.setattr(tasks.run_jobs, "apply_async", lambda args, **options: sent.append((args, options)))
    tasks.run_jobs()
    ((args, options),) = sent
    assert options["queue"] == (queue or "webhooks")
    assert options["countdown"] is None
    tasks.run_jobs(*args)
    tasks.run_jobs(*args)
    assert len(sent) == 2
    pace().saw_live(time.monotonic())
    tasks.run_jobs(*sent[-1][0])
    assert 0 < sent[-1][1]["countdown"] < sent[-1][1]["expires"]
    Job.objects.update(state="succeeded")


def test_beat_asks_every_few_seconds():
    entry = beat_schedule()["webhooks-jobs"]
    assert entry["task"] == tasks.run_jobs.name
    assert entry["options"]["queue"] == "webhooks"
    assert entry["options"]["expires"] <= entry["schedule"] == 5.0
    assert beat_schedule(bulk_queue="webhooks.bulk")["webhooks-jobs"]["options"]["queue"] == "webhooks.bulk"
