"""Brokers that hand out messages again, or close channels of those who wait too long (B001, B003)."""

from itertools import pairwise

import pytest

from scripts.services import RabbitMQ, ServerError
from tests.e2e.broker import rabbitmq_broker, redis_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK


class ImpatientRabbitMQ(RabbitMQ):
    """A RabbitMQ that closes the channel of a consumer which keeps a message for ten seconds."""

    def prepare(self):
        super().prepare()
        settings = "[{rabbit, [{consumer_timeout, 10000}, {channel_tick_interval, 1000}]}].\n"
        (self.folder / "advanced.config").write_text(settings)

    def environment(self):
        return {**super().environment(), "RABBITMQ_ADVANCED_CONFIG_FILE": f"{self.folder}/advanced.config"}


@pytest.fixture
def impatient_rabbitmq():
    try:
        node = ImpatientRabbitMQ()
    except ServerError as error:
        pytest.skip(f"not run: {error}")
    with node:
        yield node


def attempts_on_time(stage, waits, events):
    """Check that each attempt was made once, and not before its time."""
    for event in events:
        posts = [post for post in stage.receiver.posts if post.event_id == event]
        assert [post.attempt for post in posts] == list(range(1, len(waits) + 2))
        gaps = [later.at - earlier.at for earlier, later in pairwise(posts)]
        assert all(wait <= gap < wait + 6 for wait, gap in zip(waits, gaps, strict=True)), gaps


@pytest.mark.parametrize("delay", [4, 30])
def test_redis_hands_out_waiting_messages_again(make_stage, redis_url, delay):
    """visibility_timeout is shorter than the retry delay; two workers, an endpoint that always fails."""
    waits = [delay] * (6 if delay == 4 else 1)
    stage = make_stage(redis_broker(redis_url, visibility_timeout=2))
    stage.receiver.on("a", Reply(500))
    stage.endpoint(policy_overrides={**QUICK, "waits": waits})
    for _ in range(2):
        stage.worker(concurrency=2)
    stage.beat()
    events = stage.emit(5)
    stage.settle(len(waits) * (delay + 6) + 20)
    report = check(stage.receiver.posts, events, endpoints=1, ends=("exhausted",))
    assert report.doubled == 0
    attempts_on_time(stage, waits, events)


def test_rabbitmq_closes_channels_of_those_who_wait(make_stage, impatient_rabbitmq):
    """consumer_timeout is shorter than the retry delay: no message is kept unacknowledged that long."""
    waits = [4, 25, 4]
    stage = make_stage(rabbitmq_broker(impatient_rabbitmq.url))
    stage.receiver.on("a", Reply(500))
    stage.endpoint(policy_overrides={**QUICK, "waits": waits})
    workers = [stage.worker(concurrency=1) for _ in range(2)]
    stage.beat()
    events = stage.emit(5)
    stage.settle(90)
    check(stage.receiver.posts, events, endpoints=1, ends=("exhausted",))
    attempts_on_time(stage, waits, events)
    for worker in workers:
        assert not worker.said("PRECONDITION_FAILED"), "the broker closed its channel"
        assert not worker.said("Connection to broker lost")


def test_that_node_does_close_channels(impatient_rabbitmq):
    """The test above could not fail otherwise: a consumer that keeps a message loses its channel."""
    from amqp.exceptions import PreconditionFailed
    from kombu import Connection

    with Connection(impatient_rabbitmq.url) as connection:
        queue = connection.SimpleQueue("kept")
        queue.put("x")
        queue.get(timeout=5)
        with pytest.raises(PreconditionFailed):
            connection.drain_events(timeout=60)
