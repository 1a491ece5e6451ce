"""Recovery with real workers: all of it arrives, also when a worker dies in the middle of a job."""

from datetime import UTC, datetime, timedelta

from tests.e2e.invariants import check
from tests.e2e.test_run_command import run_command
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.recover import recover

HASTE = {
    "webhooks_app.actions.recover:BATCH": 10,
    "webhooks_app.actions.job_relay:SLICE": 0.05,
    "webhooks_app.actions.job_relay:PATIENCE": 1.0,
    "webhooks_app.actions.run_jobs:CLAIM": 1.0,
    "webhooks_app.beat:JOBS_SECONDS": 0.3,
    "webhooks_app.beat:TICK_SECONDS": 0.3,
}
EVENTS = 600


def missed(stage):
    """Return a disabled endpoint and the events that came meanwhile."""
    return disable(stage.actor, stage.endpoint()), stage.emit_many(EVENTS)


def begin(stage, row):
    job = recover(stage.actor, enable(stage.actor, row), since=datetime.now(UTC) - timedelta(hours=1))
    assert job.total == EVENTS
    return job


def state(stage, job):
    return stage.rows("SELECT state, done, skipped FROM webhooks_app_job WHERE id = %s", job.pk)[0]


def fanned_out(stage):
    return not stage.value("SELECT count(*) FROM webhooks_app_outboxentry WHERE dispatched_at IS NULL")


def test_a_worker_that_dies_in_a_job_loses_nothing(stage):
    stage.choice.constants |= HASTE
    row, events = missed(stage)
    stage.tick()
    first = stage.worker(concurrency=1)
    stage.until(lambda: fanned_out(stage), 20, "the events are fanned out")
    job = begin(stage, row)
    stage.beat()
    stage.until(lambda: state(stage, job)[1] > 0, 20, "the job has begun")
    first.kill()
    done = state(stage, job)[1]
    stage.worker(concurrency=2)
    stage.until(lambda: state(stage, job)[0] == "succeeded", 40, "the job ends")
    assert state(stage, job)[1:] == (EVENTS, 0)
    assert done < EVENTS, "it died in the middle"
    stage.settle(40)
    check(stage.receiver.posts, events, endpoints=1)


def test_a_job_waits_for_no_beat(stage):
    row, events = missed(stage)
    stage.worker(concurrency=1)
    stage.until(lambda: fanned_out(stage), 20, "the events are fanned out")
    job = begin(stage, row)
    stage.until(lambda: state(stage, job)[0] == "succeeded", 20, "the job ends")
    stage.settle(30)
    check(stage.receiver.posts, events, endpoints=1)


def test_without_celery(stage):
    row, events = missed(stage)
    run_command(stage)
    stage.until(lambda: fanned_out(stage), 20, "the events are fanned out")
    job = begin(stage, row)
    stage.until(lambda: state(stage, job)[0] == "succeeded", 20, "the job ends")
    stage.settle(30)
    check(stage.receiver.posts, events, endpoints=1)
