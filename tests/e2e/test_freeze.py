"""SIGSTOP: a worker that sleeps past its claim records nothing; one that holds locks is cut off."""

import signal

import psycopg
import pytest

from scripts.processes import signal_tree
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply

SHORT_GUARD = "SET LOCAL idle_in_transaction_session_timeout = '2s'"
GUARD = "webhooks_app.pipeline.dialect:_GUARD"


def test_outcomes_of_a_lapsed_claim_are_refused(stage):
    """Its requests were answered, but its claims were taken over: it must not record (nor count) them."""
    stage.receiver.on("a", Reply(delay=0.4))
    stage.endpoint()
    frozen = stage.worker(concurrency=1)
    events = stage.emit(4)
    stage.until(lambda: stage.receiver.count("a") == 4, 10, "requests are open")
    frozen.freeze()
    other = stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    before = stage.rows("SELECT id, delivery_id, number FROM webhooks_app_attempt ORDER BY id")
    other.close()
    frozen.thaw()
    # The sleeper alone serves these, after it tried to record what it had sent before.
    later = stage.emit(2)
    stage.settle()
    report = check(stage.receiver.posts, events + later, endpoints=1)
    after = stage.rows("SELECT id, delivery_id, number FROM webhooks_app_attempt ORDER BY id")
    assert set(before) < set(after)
    assert not frozen.said("was refused"), "only the unique numbers stopped it, not the fence"
    assert len(after) == 6
    assert report.doubled == 4
    assert {post.attempt for post in stage.receiver.posts} == {1}
    assert stage.value("SELECT consecutive_failures FROM webhooks_app_endpointstate") == 0


def test_a_worker_frozen_inside_a_lease_is_cut_off(stage):
    """Its locks are freed by the server, and the others deliver; thawed, it goes on with a new connection."""
    fault = {"at": "webhooks_app.pipeline.lease:candidates", "when": "before", "do": "stop"}
    stage.choice.constants[GUARD] = SHORT_GUARD
    stage.endpoint("a")
    stage.endpoint("b", tenant="u")
    frozen = stage.worker(concurrency=1, faults=[fault])
    events = stage.emit(2) + stage.emit(2, tenant="u")
    stage.until(lambda: stage.struck(fault) is not None, 10, "the worker froze")
    stage.worker(concurrency=1)
    stage.tick()
    stage.settle()
    assert "idle-in-transaction timeout" not in frozen.text()
    signal_tree(stage.struck(fault), signal.SIGCONT)
    later = stage.emit(4)
    stage.settle()
    stage.until(lambda: "repeating a transaction" in frozen.text(), 10, "the sleeper noticed")
    report = check(stage.receiver.posts, events + later, endpoints=1)
    assert report.doubled == 0


def test_one_locked_endpoint_does_not_stop_the_others(stage):
    """A person's open transaction on one row, e.g. in psql, holds up that endpoint only (B161)."""
    stuck = stage.endpoint("stuck")
    stage.endpoint("free")
    stage.worker(concurrency=1)
    stage.tick()
    with psycopg.connect(stage.choice.database) as person:
        person.execute(
            "SELECT 1 FROM webhooks_app_endpointstate WHERE endpoint_id = %s FOR UPDATE", [stuck.pk]
        )
        events = stage.emit(5)
        stage.until(lambda: stage.receiver.count("free") == 5, 8, "the other endpoint got its events")
        assert stage.receiver.count("stuck") == 0
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=2).doubled == 0


@pytest.mark.parametrize("place", [0, 1])
def test_requests_of_a_batch_are_recorded_beside_a_locked_endpoint(stage, place):
    """The row is locked while requests are open: the other endpoint's outcomes are recorded all the same."""
    names = ["first", "second"]
    for name in names:
        stage.receiver.on(name, Reply(delay=0.6))
    endpoints = [
        stage.endpoint(name, policy_overrides={"total_timeout": 1.5, "connect_timeout": 0.5})
        for name in names
    ]
    stage.worker(concurrency=1)
    events = stage.emit(2)
    stage.until(lambda: len(stage.receiver.posts) == 4, 10, "requests are open")
    stage.tick()
    with psycopg.connect(stage.choice.database) as person:
        person.execute(
            "SELECT 1 FROM webhooks_app_endpointstate WHERE endpoint_id = %s FOR UPDATE",
            [endpoints[place].pk],
        )
        free = endpoints[1 - place].pk
        stage.until(
            lambda: (
                stage.value("SELECT count(*) FROM webhooks_app_attempt WHERE endpoint_id = %s", free) == 2
            ),
            4,
            "the other endpoint's outcomes are recorded",
        )
    stage.settle()
    check(stage.receiver.posts, events, endpoints=2)
    assert [stage.receiver.count(name) for name in names][1 - place] == 2
