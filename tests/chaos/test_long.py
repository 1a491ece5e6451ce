"""What takes its real time: hanging requests at a deploy, real lock limits, real neighbours, long runs."""

import os
import signal
import threading
import time

import pytest

from scripts.processes import signal_tree
from tests.chaos.people import cancel_some, edit_endpoints, pause_and_resume, prune_often
from tests.e2e.broker import redis_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK
from tests.e2e.test_crowd import resident_kb

PEOPLE = (prune_often, cancel_some, pause_and_resume, edit_endpoints)
LONG = {"waits": [60], "jitter": 0.1, "connect_timeout": 5.0, "total_timeout": 15.0}


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_deploy_while_requests_hang_fourteen_seconds(stage, pool):
    """The worker leaves when its last request has ended; container runtimes must give it that time."""
    stage.choice.constants.clear()
    for name in ("a", "b"):
        stage.receiver.on(name, Reply(delay=14.0))
        stage.endpoint(name, policy_overrides=LONG)
    worker = stage.worker(pool=pool, concurrency=1)
    events = stage.emit(4)
    stage.until(lambda: len(stage.receiver.posts) == 8, 15, "eight requests hang")
    worker.terminate()
    assert worker.wait(30) == 0
    report = check(stage.receiver.posts, events, endpoints=2)
    assert (report.posts, report.attempts) == (8, 8)


def test_worker_frozen_inside_a_lease_with_the_real_limits(stage):
    """Ten seconds after it froze, its locks are gone and the endpoints of its wake are served."""
    stage.choice.constants.clear()
    fault = {"at": "webhooks_app.pipeline.lease:candidates", "when": "before", "do": "stop"}
    stage.endpoint("a")
    stage.endpoint("b")
    stage.worker(concurrency=1, faults=[fault])
    events = stage.emit(3)
    stage.until(lambda: stage.struck(fault) is not None, 10, "the worker froze")
    frozen_at = time.monotonic()
    stage.worker(concurrency=1)
    stage.tick(1.0)
    stage.settle(50)
    took = max(post.at for post in stage.receiver.posts) - frozen_at
    assert 9 <= took < 45, "the limit was not what freed them"
    signal_tree(stage.struck(fault), signal.SIGCONT)
    later = stage.emit(3)
    stage.settle(40)
    assert check(stage.receiver.posts, events + later, endpoints=2).doubled == 0


def test_a_tenant_with_five_thousand_events_for_a_dead_endpoint(stage):
    """Another tenant's ten events arrive within seconds, on four worker slots (B122)."""
    stage.choice.constants.clear()
    stage.receiver.on("dead", Reply(delay=15.0))
    stage.endpoint("dead", tenant="bad", policy_overrides=LONG)
    stage.endpoint("good", tenant="good")
    stage.worker(concurrency=4)
    stage.tick(1.0)
    stage.emit_many(5000, tenant="bad")
    stage.until(lambda: stage.receiver.count("dead") >= 4, 30, "the dead endpoint hangs")
    took = []
    for _ in range(10):
        started = time.monotonic()
        event = stage.emit(1, tenant="good")[0]
        stage.until(lambda event=event: stage.seen(event), 20, "the healthy endpoint got its event")
        took.append(time.monotonic() - started)
    print(f"\nhealthy beside 5,000 to a dead one: {sorted(round(each, 3) for each in took)}")
    assert sorted(took)[-1] < 3.0
    assert stage.receiver.peak["/dead"] <= 4


def test_eight_workers_mixed_results_and_people_at_work(stage):
    """Two thousand deliveries, retention and cancelling beside them: no deadlock, nothing lost (B133)."""
    names = [f"n{number}" for number in range(10)]
    for place, name in enumerate(names):
        stage.receiver.on(
            name, lambda post, place=place: Reply(500 if (post.attempt + place) % 3 == 0 else 200, delay=0.01)
        )
        stage.endpoint(name, max_in_flight=20, policy_overrides={**QUICK, "total_timeout": 5.0})
    for worker in [stage.worker(concurrency=1, wait=False) for _ in range(8)]:
        worker.await_ready()
    stage.tick(0.5)
    stopped = threading.Event()
    people = [threading.Thread(target=each, args=(stage, stopped)) for each in PEOPLE]
    for each in people:
        each.start()
    events = []
    for _ in range(20):
        events += stage.emit(10)
    stage.settle(120)
    stopped.set()
    for each in people:
        each.join()
    report = check(stage.receiver.posts, events, endpoints=10, ends=("delivered", "cancelled"))
    assert report.doubled == 0
    deadlocks = stage.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    print(f"\n{stage.states()}, deadlocks: {deadlocks}")
    assert deadlocks == 0


@pytest.mark.parametrize("debug", [False, True], ids=["", "DEBUG"])
def test_memory_over_twenty_thousand_deliveries(make_stage, redis_url, debug):
    """One worker process, replies of 8 kB (B162). DEBUG makes Django keep queries, but only the newest."""
    stage = make_stage(redis_broker(redis_url))
    stage.choice.debug = debug
    stage.receiver.on("a", Reply(body=b"x" * 8192))
    stage.endpoint(policy_overrides={**QUICK, "total_timeout": 10.0})
    worker = stage.worker(concurrency=1)
    stage.tick(1.0)

    def memory_after(count):
        stage.emit_many(count)
        stage.settle(300)
        stage.receiver.posts.clear()
        return resident_kb(worker.children[0])

    warm = memory_after(int(os.environ.get("CHAOS_DELIVERIES", 20_000)) // 4)
    later = [memory_after(int(os.environ.get("CHAOS_DELIVERIES", 20_000)) // 4) for _ in range(3)]
    print(f"\nRSS in kB: {warm} warm, then {later}")
    assert max(later) - warm < (24_576 if debug else 8_192)
