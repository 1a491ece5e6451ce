"""Celery's pools: prefork, threads and solo end in an orderly way; gevent and eventlet are refused (B161)."""

import threading

import pytest

from scripts.processes import wait_until
from tests.e2e.invariants import check
from tests.e2e.processes import ProcessError
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK

HANG = {**QUICK, "total_timeout": 5.0}


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_deploy_in_the_middle_of_a_batch(stage, pool):
    """SIGTERM while eight requests hang: all are recorded before the worker leaves (B004, B021)."""
    release = threading.Event()
    for name in ("a", "b"):
        stage.receiver.on(name, Reply(gate=release))
        stage.endpoint(name, policy_overrides=HANG)
    worker = stage.worker(pool=pool, concurrency=1)
    events = stage.emit(12)
    stage.until(lambda: len(stage.receiver.posts) == 8, 10, "eight requests hang")
    worker.terminate()
    stage.until(lambda: worker.said("Warm shutdown"), 10, "the worker knows")
    # Longer than an idle worker takes to leave: this one must wait for its requests.
    assert not wait_until(lambda: not worker.running, seconds=1.5)
    release.set()
    assert worker.wait(30) == 0
    recorded = stage.value("SELECT count(*) FROM webhooks_app_attempt WHERE status = 'succeeded'")
    leases = stage.value("SELECT count(*) FROM webhooks_app_delivery WHERE lease_token IS NOT NULL")
    assert (recorded, leases) == (8, 0)
    assert len(stage.receiver.posts) == 8, "it went on sending"
    stage.worker(pool=pool, concurrency=1)
    stage.tick()
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=2)
    assert report.doubled == 0
    assert report.attempts == 24


def test_parked_deliveries_survive_a_deploy(stage):
    """What waits behind max_in_flight 1 uses no attempt, and leaves in order after the restart (B021)."""
    stage.receiver.on("a", Reply(delay=0.2))
    stage.endpoint(max_in_flight=1)
    worker = stage.worker(concurrency=1)
    stage.tick()
    events = stage.emit(10)
    stage.until(lambda: stage.receiver.count("a") >= 3, 10, "it has begun")
    worker.terminate()
    assert worker.wait(10) == 0
    waiting = stage.rows("SELECT attempts, lapses FROM webhooks_app_delivery WHERE state = 'pending'")
    assert waiting
    assert set(waiting) == {(0, 0)}
    stage.worker(concurrency=2)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (10, 0)
    assert [post.event_id for post in stage.receiver.posts] == events
    assert stage.receiver.peak["/a"] == 1


def test_green_threads_are_refused(stage):
    """A pool of green threads ends at once with a sentence that says what to do instead."""
    pool = "tests.e2e.green_pool_like_gevent:TaskPool"
    stage.choice.celery["worker_pool"] = pool
    with pytest.raises(ProcessError, match=r"cannot send webhooks\. Serve the queue webhooks"):
        stage.worker(pool="custom", environment={"CELERY_CUSTOM_WORKER_POOL": pool})


def test_green_threads_may_serve_other_queues(stage):
    pool = "tests.e2e.green_pool_like_gevent:TaskPool"
    stage.choice.webhooks["QUEUE_NAME"] = "elsewhere"
    stage.worker(pool="custom", queue="mail", environment={"CELERY_CUSTOM_WORKER_POOL": pool})


def test_sigterm_to_every_process_of_the_worker(stage):
    """systemd's default (KillMode=control-group) signals the pool processes too, while requests hang."""
    release = threading.Event()
    stage.receiver.on("a", Reply(gate=release))
    stage.endpoint(policy_overrides=HANG)
    worker = stage.worker(concurrency=1)
    events = stage.emit(4)
    stage.until(lambda: stage.receiver.count("a") == 4, 10, "requests hang")
    worker.terminate_all()
    stage.until(lambda: worker.said("Warm shutdown"), 10, "the worker knows")
    release.set()
    worker.wait(15)
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert report.doubled == 0


def test_recycled_pool_processes(stage):
    """worker_max_tasks_per_child: a process that is replaced records its open requests first."""
    stage.choice.celery["worker_max_tasks_per_child"] = 2
    stage.receiver.on("a", Reply(delay=0.4))
    stage.endpoint()
    worker = stage.worker(concurrency=1)
    stage.tick()
    events = stage.emit(24)
    first = worker.children
    stage.settle(40)
    assert worker.children != first, "nothing was replaced"
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (24, 0)
