"""Rows are the schedule: doubled hints, overdue rows, restarts and slow receivers change nothing about it."""

import statistics
from itertools import pairwise

from tests.e2e.broker import redis_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Receiver, Reply
from tests.e2e.stage import QUICK
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.queue import DELIVER


def test_hints_may_come_many_times(stage):
    """Every copy of a message is harmless, as a broker that redelivers makes them (B001, B014)."""
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt < 3 else 200, delay=0.05))
    endpoint = stage.endpoint()
    workers = [stage.worker(concurrency=2), stage.worker(concurrency=2)]
    events = stage.emit(10)
    for _ in range(30):
        stage.send(DELIVER, [endpoint.pk])
    stage.tick(0.1)
    stage.until(lambda: stage.receiver.count("a") >= 15, 10, "retries have begun")
    for _ in range(30):
        stage.send(DELIVER, [endpoint.pk])
    stage.settle()
    assert all(worker.running for worker in workers)
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.posts) == (30, 30)
    for event in events:
        times = [post.at for post in stage.receiver.posts if post.event_id == event]
        assert all(later - earlier >= 1.0 for earlier, later in pairwise(times))


def test_retries_depend_on_no_worker(stage):
    """Forty wait for their retry; the worker that failed them dies, another one sends them (B004)."""
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint(policy_overrides={**QUICK, "waits": [3], "jitter": 0.1})
    worker = stage.worker(concurrency=1)
    events = stage.emit(40)
    stage.until(lambda: stage.value("SELECT count(*) FROM webhooks_app_attempt") == 40, 10, "all failed once")
    worker.kill()
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (80, 0)


def test_overdue_deliveries_leave_at_once_oldest_first(stage):
    """Nobody ran for an hour after they were due (B016)."""
    stage.endpoint(max_in_flight=1)
    events = stage.emit(5)
    inline.fan_out()
    stage.rows(
        """UPDATE webhooks_app_delivery d SET attempts = 0, priority = 1,
        due_at = now() - interval '1 hour' - (id %% 5) * interval '1 minute'"""
    )
    oldest_first = stage.rows(
        """SELECT e.public_id FROM webhooks_app_delivery d JOIN webhooks_app_event e ON e.id = d.event_id
        ORDER BY d.due_at"""
    )
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    check(stage.receiver.posts, events, endpoints=1)
    assert [(post.event_id,) for post in stage.receiver.posts] == oldest_first


def test_the_tick_leaves_alone_what_is_running(stage):
    """A receiver slower than the tick, more deliveries than places: one request each (B008)."""
    stage.choice.constants["webhooks_app.pipeline.tick:PATIENCE"] = 0.0
    stage.receiver.on("a", Reply(delay=0.9))
    stage.endpoint(max_in_flight=8, policy_overrides={**QUICK, "total_timeout": 3.0})
    stage.worker(concurrency=2)
    stage.tick(0.1)
    events = stage.emit(20)
    stage.settle(30)
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (20, 20)
    assert stage.receiver.peak["/a"] <= 8


def test_one_at_a_time_burns_no_attempt(stage):
    """max_in_flight 1 and a slow first: the others follow one by one, in order, at once (B042)."""
    stage.receiver.on("a", lambda post: Reply(delay=1.5 if b'"place":0' in post.body else 0.0))
    stage.endpoint(max_in_flight=1, policy_overrides={**QUICK, "total_timeout": 4.0})
    stage.worker(concurrency=2)
    events = stage.emit(10)
    stage.settle(20)
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (10, 10)
    assert [post.event_id for post in stage.receiver.posts] == events
    assert stage.receiver.peak["/a"] == 1
    times = [post.at for post in stage.receiver.posts]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert 1.5 <= gaps[0] < 3.0
    assert max(gaps[1:]) < 1.0, "one waited for the tick, not for its predecessor"


def test_retries_of_a_burst_are_spread(stage):
    """Two hundred fail in the same second; their second attempts are due over ±10 % of the wait (B125)."""
    stage.receiver.on("a", Reply(500))
    stage.endpoint(policy_overrides={"waits": [60], "total_timeout": 5.0})
    stage.worker(concurrency=1)
    stage.emit(200)
    stage.until(
        lambda: stage.value("SELECT count(*) FROM webhooks_app_attempt") == 200, 20, "all failed once"
    )
    waits = [
        float(row[0])
        for row in stage.rows(
            "SELECT extract(epoch FROM next_attempt_at - created_at) FROM webhooks_app_attempt"
        )
    ]
    assert 54 <= min(waits) <= max(waits) <= 66
    assert statistics.pstdev(waits) > 2.5, "a uniform spread of ±6 s has 3.5"


def test_a_fan_out_that_fails_in_the_middle_skips_nothing(stage):
    """The fourth of ten raises twice, beside the others and alone: all go, it a bit later (B040)."""
    fault = {
        "at": "webhooks_app.pipeline.fan_out:plan",
        "when": "before",
        "do": "raise",
        "match": "fourth.event",
        "times": 2,
    }
    stage.endpoint()
    first = stage.emit(3)
    fourth = stage.emit(1, type="fourth.event")
    events = first + fourth + stage.emit(6)
    stage.worker(concurrency=1, faults=[fault])
    stage.tick()
    stage.settle()
    assert stage.struck(fault, 1)
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (10, 10)
    failures = stage.rows("SELECT event_id, failures FROM webhooks_app_outboxentry WHERE failures > 0")
    assert failures == [(fourth[0], 1)]


def test_receivers_that_close_idle_connections_cost_no_attempt(make_stage, redis_url):
    """Events come just after the receiver has closed the kept connection (B103)."""
    stage = make_stage(redis_broker(redis_url), receiver=Receiver(idle_seconds=0.3))
    stage.endpoint()
    stage.worker(concurrency=1)
    events = []
    for round_number in range(1, 9):
        events += stage.emit(1)
        stage.until(lambda count=round_number: stage.receiver.count("a") == count, 10, "it arrived")
        last = stage.receiver.posts[-1].at
        # Around the moment of closing: some of these find the connection open, some closed, some closing.
        stage.pause_until(last + 0.27 + 0.01 * round_number)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (8, 0)
    assert stage.receiver.connections > 1
