"""Endpoints that change, stop or vanish while deliveries wait for them (B013, B022)."""

import pytest

from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.replay import replay
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.pipeline import inline


def queue_without_sending(stage, count):
    """Emit and fan out while no worker runs: the deliveries wait in the table, their hints in the broker."""
    events = stage.emit(count)
    inline.fan_out()
    assert stage.value("SELECT count(*) FROM webhooks_app_delivery") == count
    return events


def test_disabled_while_twenty_wait(stage):
    endpoint = stage.endpoint()
    events = queue_without_sending(stage, 20)
    disable(stage.actor, endpoint)
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    assert stage.receiver.posts == []
    check([], events, endpoints=1, ends=("dead_lettered",))
    errors = stage.rows("SELECT DISTINCT last_error, attempts FROM webhooks_app_delivery")
    assert errors == [("endpoint_disabled", 0)]
    enable(stage.actor, endpoint)
    assert replay(stage.actor, endpoint, event_ids=events) == 20
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1).posts == 20


def test_deleted_while_twenty_wait(stage):
    endpoint = stage.endpoint()
    events = queue_without_sending(stage, 20)
    delete_endpoint(stage.actor, endpoint)
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    assert stage.receiver.posts == []
    check([], events, endpoints=1, ends=("dead_lettered",))
    assert stage.rows("SELECT DISTINCT last_error FROM webhooks_app_delivery") == [("endpoint_deleted",)]


def test_moved_while_twenty_wait(stage):
    endpoint = stage.endpoint("old")
    events = queue_without_sending(stage, 20)
    update_endpoint(stage.actor, endpoint, {"url": stage.receiver.url("new"), "retarget_pending": True})
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    check(stage.receiver.posts, events, endpoints=1)
    assert (stage.receiver.count("old"), stage.receiver.count("new")) == (0, 20)


def test_disabled_between_two_attempts(stage):
    """The endpoint is read again for every attempt: the retry that comes due makes no request."""
    stage.receiver.on("a", Reply(500))
    endpoint = stage.endpoint()
    stage.worker(concurrency=1)
    stage.tick()
    events = stage.emit(3)
    stage.until(lambda: stage.value("SELECT count(*) FROM webhooks_app_attempt") == 3, 10, "all failed once")
    disable(stage.actor, endpoint)
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1, ends=("dead_lettered",)).posts == 3


@pytest.mark.parametrize("gone", ["event row", "body"])
def test_vanished_events_end_once_and_hold_up_nobody(stage, gone):
    stage.endpoint()
    events = queue_without_sending(stage, 5)
    if gone == "event row":
        stage.rows("DELETE FROM webhooks_app_event WHERE public_id = ANY(%s)", events[:2])
    stage.rows("DELETE FROM webhooks_app_outboxentry WHERE event_id = ANY(%s)", events[:2])
    worker = stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    assert {post.event_id for post in stage.receiver.posts} == set(events[2:])
    ended = stage.rows(
        "SELECT state, last_error, count(*) FROM webhooks_app_delivery GROUP BY 1, 2 ORDER BY 1"
    )
    assert ended == [("delivered", "", 3), ("expired", "event_unavailable", 2)]
    assert worker.text().count("event_unavailable") == 2, "operators see one warning each"
    assert stage.value("SELECT enabled FROM webhooks_app_endpointstate") is True
    assert stage.rows("SELECT consecutive_failures FROM webhooks_app_endpointstate") == [(0,)]
