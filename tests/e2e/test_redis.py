"""Redis down, frozen, emptied: the caller notices nothing, and everything arrives afterwards (B011, B019).

Workers are supervised where Redis dies: Celery 5.7 ends with an AttributeError of kombu's when the broker is
lost while it holds unacknowledged messages, and relies on being started again.
"""

import pytest

from tests.e2e.broker import Broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK, timed

# What a caller may be held up by a broker that does not answer.
PATIENCE = 0.5


@pytest.fixture
def redis_stage(make_stage, own_redis):
    return make_stage(Broker(own_redis.url))


def emit_timed(stage, count):
    """Emit one event a transaction, as single web requests do; return the ids and the longest time."""
    events, longest = [], 0.0
    for _ in range(count):
        with timed() as took:
            events += stage.emit(1)
        longest = max(longest, *took)
    return events, longest


def test_stopped_while_emitting(redis_stage, own_redis):
    stage = redis_stage
    stage.endpoint()
    worker = stage.worker().supervise()
    stage.tick()
    events = stage.emit(2)
    stage.until(lambda: stage.receiver.count("a") == 2, 10, "the broker works")
    own_redis.kill()
    more, longest = emit_timed(stage, 5)
    assert longest < PATIENCE
    own_redis.start()
    stage.settle()
    assert worker.running
    report = check(stage.receiver.posts, events + more, endpoints=1)
    assert (report.attempts, report.doubled) == (7, 0)


def test_never_there(redis_stage, own_redis):
    """The first events of a process fall into the outage."""
    own_redis.kill()
    redis_stage.endpoint()
    events, longest = emit_timed(redis_stage, 5)
    assert longest < PATIENCE
    own_redis.start()
    redis_stage.worker(concurrency=1)
    redis_stage.tick()
    redis_stage.settle()
    assert check(redis_stage.receiver.posts, events, endpoints=1).doubled == 0


def test_frozen(redis_stage, own_redis):
    """It accepts connections and answers nothing; thawed, the same worker goes on by itself."""
    stage = redis_stage
    stage.endpoint()
    worker = stage.worker()
    stage.tick()
    events = stage.emit(2)
    stage.until(lambda: stage.receiver.count("a") == 2, 10, "the broker works")
    with own_redis.frozen():
        more, longest = emit_timed(stage, 5)
        assert longest < PATIENCE
    stage.settle()
    assert worker.running
    assert check(stage.receiver.posts, events + more, endpoints=1).doubled == 0


def test_emptied(redis_stage, own_redis):
    """FLUSHALL with 30 deliveries waiting for a retry and 5 events queued (B019)."""
    stage = redis_stage
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint(policy_overrides={**QUICK, "waits": [2], "jitter": 0.2})
    worker = stage.worker(concurrency=1)
    events = stage.emit(30)
    stage.until(lambda: stage.receiver.count("a") == 30, 15, "thirty have failed once")
    worker.freeze()
    events += stage.emit(5)
    own_redis.flush()
    worker.thaw()
    stage.tick()
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (70, 0)


def test_restarted_empty(redis_stage, own_redis):
    stage = redis_stage
    stage.receiver.on("a", lambda post: Reply(503 if post.attempt == 1 else 200))
    stage.endpoint()
    worker = stage.worker(concurrency=1).supervise()
    stage.tick()
    events = stage.emit(10)
    stage.until(lambda: stage.receiver.count("a") >= 5, 10, "some have failed once")
    own_redis.kill()
    events += stage.emit(5)
    own_redis.start()
    stage.settle()
    assert worker.running
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (30, 0)


@pytest.mark.parametrize("state", ["down", "frozen"])
def test_a_process_without_threads_is_held_up_once(redis_stage, own_redis, state, monkeypatch):
    """Under uWSGI without threads the caller publishes itself: at most half a second, then silence."""
    from webhooks_app.pipeline import doorbell

    monkeypatch.setattr(doorbell, "threads_work", lambda: False)
    redis_stage.endpoint()
    redis_stage.emit(1)
    if state == "down":
        own_redis.kill()
    else:
        own_redis.freeze()
    with timed() as took:
        redis_stage.emit(3)
    if state == "frozen":
        own_redis.thaw()
    assert took[0] < PATIENCE
