"""RabbitMQ down and frozen: the caller notices nothing, and everything arrives afterwards (B011)."""

from tests.e2e.broker import rabbitmq_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.test_redis import PATIENCE, emit_timed


def test_retries_pass_through(make_stage, amqp_url):
    stage = make_stage(rabbitmq_broker(amqp_url))
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint()
    stage.worker()
    stage.tick()
    events = stage.emit(10)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (20, 0)


def test_frozen_and_then_gone(make_stage, own_rabbitmq):
    """One test, because the node takes six seconds to start."""
    stage = make_stage(rabbitmq_broker(own_rabbitmq.url))
    stage.endpoint()
    worker = stage.worker()
    stage.tick()
    events = stage.emit(2)
    stage.until(lambda: stage.receiver.count("a") == 2, 10, "the broker works")

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
    assert (report.attempts, report.doubled) == (12, 0)
