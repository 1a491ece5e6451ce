"""SIGKILL of a pool process or of the whole worker, at every step of the path: nothing is lost (B006, B010).

The kills fall at chosen calls of the product, so that each step is really hit. An event is sent twice only
where the crash fell between a request and its record.
"""

import os
import signal

import pytest

from tests.e2e.invariants import check
from tests.e2e.receiver import Reply

# What an endpoint may have in flight at first; a record doubles it.
WINDOW = 4

# Each row: the call, and whether the process dies before or after it.
OUTSIDE_OF_REQUESTS = [
    ("webhooks_app.pipeline.tick:look", "after"),
    ("webhooks_app.pipeline.fan_out:mark_dispatched", "before"),
    ("webhooks_app.pipeline.tickets:fan_out_batch", "after"),
    ("webhooks_app.pipeline.lease:mark", "after"),
    ("webhooks_app.pipeline.engine:lease", "after"),
    ("webhooks_app.pipeline.announce:recorded", "before"),
]
AROUND_REQUESTS = [
    ("webhooks_app.destinations.https:send", "before"),
    ("webhooks_app.destinations.https:send", "after"),
    ("webhooks_app.pipeline.record:insert_attempts", "after"),
]


def faults_at(steps):
    return [{"at": at, "when": when, "do": "kill"} for at, when in steps]


def run_with_faults(stage, faults):
    stage.endpoint()
    stage.worker(concurrency=1, faults=faults)
    stage.tick()
    events = stage.emit(16)
    stage.settle(40)
    for fault in faults:
        stage.until(lambda fault=fault: stage.struck(fault) is not None, 10, f"the fault {fault} struck")
    return check(stage.receiver.posts, events, endpoints=1)


def test_child_dies_where_no_request_is_open(stage):
    assert run_with_faults(stage, faults_at(OUTSIDE_OF_REQUESTS)).doubled == 0


def test_child_dies_around_a_request(stage):
    faults = faults_at(AROUND_REQUESTS)
    # Two kills come before the first record, so only the last can hit a window that has grown.
    assert 1 <= run_with_faults(stage, faults).doubled <= len(faults) * 2 * WINDOW


def test_child_dies_while_the_receiver_thinks(stage):
    worker = stage.worker(concurrency=1)
    killed = []

    def answer(post):
        if not killed:
            killed.extend(worker.children)
            os.kill(killed[0], signal.SIGKILL)
        return Reply()

    stage.receiver.on("a", answer)
    stage.endpoint()
    events = stage.emit(6)
    stage.tick()
    stage.settle()
    assert killed
    report = check(stage.receiver.posts, events, endpoints=1)
    assert 1 <= report.doubled <= WINDOW
    first = stage.receiver.posts[0]
    again = [post for post in stage.receiver.posts if post.event_id == first.event_id]
    assert [post.attempt for post in again] == [1, 1]


@pytest.mark.parametrize("orphans", [False, True], ids=["all of it", "only the main process"])
def test_worker_dies(stage, orphans):
    """Orphaned pool processes record what they began, or leave it to the next worker."""
    stage.receiver.on("a", Reply(delay=0.5))
    stage.endpoint()
    worker = stage.worker(concurrency=2)
    stage.tick()
    events = stage.emit(8)
    stage.until(lambda: len(stage.receiver.posts) >= 3, 10, "requests are open")
    if orphans:
        worker.kill_main()
    else:
        worker.kill()
    stage.worker(concurrency=2)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert report.doubled <= WINDOW
    assert orphans or report.doubled >= 1


def test_a_delivery_that_kills_its_worker_ends_and_spares_its_neighbours(stage):
    fault = {
        "at": "webhooks_app.destinations.https:send",
        "when": "before",
        "do": "kill",
        "match": "poison.pill",
        "times": 9,
    }
    stage.endpoint(policy_overrides={"waits": [], "connect_timeout": 0.5, "total_timeout": 0.5})
    poison = stage.emit(1, type="poison.pill")
    others = stage.emit(6)
    stage.worker(concurrency=1, faults=[fault])
    stage.tick()
    stage.settle(40)
    assert stage.struck(fault, 2)
    assert stage.struck(fault, 3) is None, "it was sent a fourth time"
    check(stage.receiver.posts, poison + others, endpoints=1, ends=("delivered", "exhausted"))
    lost = stage.rows("SELECT event_id, number, error FROM webhooks_app_attempt WHERE error <> ''")
    assert lost == [(poison[0], 1, "worker_lost")]
    assert {post.event_id for post in stage.receiver.posts} == set(others)
