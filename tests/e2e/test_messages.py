"""What lies in the broker: small messages that point to rows, and never a payload (B058)."""

import redis

from webhooks_app.pipeline import doorbell

LIMIT = 1024
# A wake says when it is due and when it expires; nearly all of a message is Celery's own.
LIMIT_OF_A_WAKE = 1200


def raw_messages(stage):
    with redis.Redis.from_url(stage.broker.url) as client:
        return client.lrange(stage.broker.queue, 0, -1)


def test_a_message_holds_pointers_only(stage):
    """A hundred endpoints with keys as large as they ever get, and events of 200 kB."""
    stage.endpoint()
    stage.emit(20, data={"text": "secret " * 28_000})
    doorbell.ring(endpoint_ids=range(10_000_000, 10_000_100), later={10_000_100: 3.0})
    stage.until(lambda: len(raw_messages(stage)) >= 3, 10, "hints are published")
    assert doorbell.bell().flush(5)
    messages = raw_messages(stage)
    assert not any(b"secret" in message for message in messages)
    sizes = sorted(len(message) for message in messages)
    assert sizes[0] < LIMIT, "a fan-out"
    assert sizes[-2] < LIMIT_OF_A_WAKE, "a wake of one endpoint"
    # Thirty bytes an endpoint: its key, twice, in base64.
    assert sizes[-1] < 4 * LIMIT, "a wake of a hundred endpoints"


def test_hints_of_a_burst_are_merged(stage):
    """A thousand commits need a few messages, not a thousand."""
    stage.endpoint()
    with_thread = doorbell.bell()
    for _ in range(1000):
        doorbell.ring(fan_out=True)
    assert with_thread.flush(5)
    assert 1 <= len(raw_messages(stage)) <= 100
