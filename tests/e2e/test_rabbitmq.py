"""RabbitMQ down and frozen: the caller notices nothing, and everything arrives afterwards (B011)."""

from tests.e2e.broker import rabbitmq_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.test_redis import PATIENCE, emit_timed


def test_retries_then_frozen_then_gone(make_stage, own_rabbitmq):
    """One test, because the node takes six seconds to start."""
    stage = make_stage(rabbitmq_broker(own_rabbitmq.url))
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint()
    worker = stage.worker()
    stage.tick()
    events = stage.emit(10)
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1).attempts == 20

    with own_rabbitmq.frozen():
        more, longest = emit_timed(stage, 5)
    assert longest < PATIENCE
    stage.settle()
    events += more
    assert check(stage.receiver.posts, events, endpoints=1).doubled == 0

    own_rabbitmq.kill()
    more, longest = emit_timed(stage, 5)
    assert longest < PATIENCE
    own_rabbitmq.start()
    stage.settle(60)
    assert worker.running
    report = check(stage.receiver.posts, events + more, endpoints=1)
    assert (report.attempts, report.doubled) == (40, 0)
