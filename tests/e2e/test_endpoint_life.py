"""Endpoints that change, stop or vanish while deliveries wait for them (B013, B022)."""

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
    return events


def test_disabled_deleted_and_moved_while_twenty_wait(stage):
    """What was queued before is judged by what the endpoint is now; enabled again, it gets it by replay."""
    off, gone, moved = (stage.endpoint(name) for name in ("off", "gone", "old"))
    events = queue_without_sending(stage, 20)
    disable(stage.actor, off)
    delete_endpoint(stage.actor, gone)
    update_endpoint(stage.actor, moved, {"url": stage.receiver.url("new"), "retarget_pending": True})
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    check(stage.receiver.posts, events, endpoints=3, ends=("dead_lettered", "delivered"))
    ended = stage.rows(
        "SELECT endpoint_id, last_error, attempts, count(*) FROM webhooks_app_delivery GROUP BY 1, 2, 3"
    )
    assert sorted(ended) == [
        (off.pk, "endpoint_disabled", 0, 20),
        (gone.pk, "endpoint_deleted", 0, 20),
        (moved.pk, "", 1, 20),
    ]
    assert {post.path for post in stage.receiver.posts} == {"/new"}
    enable(stage.actor, off)
    assert replay(stage.actor, off, event_ids=events) == 20
    stage.settle()
    assert stage.receiver.count("off") == 20
    assert stage.receiver.count("gone") == 0


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


def test_vanished_events_end_once_and_hold_up_nobody(stage):
    """Of five, one lost its row and its body, one only its body."""
    stage.endpoint()
    events = queue_without_sending(stage, 5)
    stage.rows("DELETE FROM webhooks_app_event WHERE public_id = %s", events[0])
    stage.rows("DELETE FROM webhooks_app_outboxentry WHERE event_id = ANY(%s)", events[:2])
    worker = stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    assert {post.event_id for post in stage.receiver.posts} == set(events[2:])
    ended = stage.rows(
        "SELECT state, last_error, count(*) FROM webhooks_app_delivery GROUP BY 1, 2 ORDER BY 1"
    )
    assert ended == [("dead_lettered", "event_unavailable", 2), ("delivered", "", 3)]
    assert worker.text().count("event_unavailable") == 2, "operators see one warning each"
    state = stage.rows("SELECT enabled, consecutive_failures FROM webhooks_app_endpointstate")
    assert state == [(True, 0)]
