"""RabbitMQ down and frozen: the caller notices nothing, and everything arrives afterwards (B011)."""

import pytest

from scripts.services import RabbitMQ, ServerError
from tests.e2e.broker import rabbitmq_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.test_redis import PATIENCE, emit_timed

# One node for all of it, in one process of the run: it takes six seconds to start.
pytestmark = pytest.mark.xdist_group("rabbitmq")


@pytest.fixture(scope="module")
def rabbitmq():
    try:
        node = RabbitMQ()
    except ServerError as error:
        pytest.skip(f"not run: {error}")
    with node:
        yield node


@pytest.fixture
def rabbit_stage(make_stage, rabbitmq):
    return make_stage(rabbitmq_broker(rabbitmq.url))


def test_every_event_arrives_once(rabbit_stage):
    stage = rabbit_stage
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint()
    stage.worker()
    stage.tick()
    events = stage.emit(10)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.attempts, report.doubled) == (20, 0)


def test_frozen(rabbit_stage, rabbitmq):
    stage = rabbit_stage
    stage.endpoint()
    worker = stage.worker()
    stage.tick()
    events = stage.emit(2)
    stage.until(lambda: stage.receiver.count("a") == 2, 10, "the broker works")
    with rabbitmq.frozen():
        more, longest = emit_timed(stage, 5)
        assert longest < PATIENCE
    stage.settle()
    assert worker.running
    assert check(stage.receiver.posts, events + more, endpoints=1).doubled == 0


def test_stopped_while_emitting(rabbit_stage, rabbitmq):
    stage = rabbit_stage
    stage.endpoint()
    worker = stage.worker()
    stage.tick()
    events = stage.emit(2)
    stage.until(lambda: stage.receiver.count("a") == 2, 10, "the broker works")
    rabbitmq.kill()
    more, longest = emit_timed(stage, 5)
    assert longest < PATIENCE
    rabbitmq.start()
    stage.settle(40)
    assert worker.running
    report = check(stage.receiver.posts, events + more, endpoints=1)
    assert (report.attempts, report.doubled) == (7, 0)
