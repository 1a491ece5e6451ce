"""Ordered endpoints with real workers: what fails or dies blocks its own lane only, and nothing overtakes."""

import threading

from tests.e2e.invariants import check, check_order
from tests.e2e.receiver import Reply
from tests.e2e.settings import ALIAS
from tests.e2e.stage import QUICK
from webhooks_app.models import Endpoint
from webhooks_app.ops.status import status
from webhooks_app.pipeline import clock

CHAIN = 50


def status_of(stage, endpoint):
    """Return what GET /v1/webhooks/{id}/status shows."""
    fresh = Endpoint.objects.using(ALIAS).select_related("state").get(pk=endpoint.pk)
    return status(ALIAS, fresh, clock.db_now(ALIAS))


def test_a_lane_is_taken_over_when_its_process_is_killed(stage):
    """SIGKILL in the middle of a chain: the other worker goes on once the claim has lapsed, not before."""
    reached, gate = threading.Event(), threading.Event()

    def answer(post):
        if b'"place":20}' not in post.body or reached.is_set():
            return Reply()
        reached.set()
        return Reply(gate=gate)

    stage.choice.constants["webhooks_app.pipeline.lease:MARGIN"] = 1.0
    stage.receiver.on("a", answer)
    endpoint = stage.endpoint(ordering="fifo", policy_overrides={**QUICK, "total_timeout": 2.0})
    events = stage.emit_many(60)
    workers = stage.crew("one", "two")
    stage.tick()
    stage.until(reached.is_set, 10, "it is in the middle of a chain")
    before = status_of(stage, endpoint)
    by_process = {child: worker for worker in workers for child in worker.children}
    victim = by_process[int(before.owner.rpartition(":")[2])]
    until, claimed = stage.rows(
        "SELECT max(lease_until), count(*) FROM webhooks_app_delivery WHERE lease_until > now()"
    )[0]
    victim.kill()
    gate.set()
    killed_at = clock.db_now(ALIAS)
    assert claimed > 1, "it was the end of a chain"
    stage.until(lambda: status_of(stage, endpoint).owner not in (None, before.owner), 10, "another owns it")
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert check_order(stage.receiver, "a") == 1
    assert 1 <= report.doubled < CHAIN
    assert stage.receiver.peak["/a"] == 1
    later = stage.value("SELECT min(created_at) FROM webhooks_app_attempt WHERE created_at > %s", killed_at)
    assert later >= until, "the lane was taken before the claim had lapsed"
    assert {post.headers["user-agent"] for post in stage.receiver.posts} == {"one", "two"}


def test_an_owner_that_fails_holds_up_no_other(stage):
    """Fifty-five wait behind the failing one, more than a chain has; they follow once it is accepted."""
    well = threading.Event()

    def answer(post):
        return Reply(200 if well.is_set() or b'"owner":3' not in post.body else 500, delay=0.02)

    stage.receiver.on("a", answer)
    stage.endpoint(ordering="subject")
    stage.crew("one", "two")
    stage.tick()
    blocked = stage.emit_many(CHAIN + 5, owner=("order", "3"), data={"owner": 3})
    others = [
        event
        for _ in range(5)
        for owner in (0, 1, 2, 4, 5, 6, 7, 8, 9)
        for event in stage.emit(1, owner=("order", str(owner)), data={"owner": owner})
    ]
    stage.until(lambda: all(map(stage.seen, others)), 10, "the others' events arrived")
    stage.until(lambda: tries(stage, blocked) >= 2, 10, "the failing one was tried again")
    assert not any(map(stage.seen, blocked[1:])), "an event went past the one that fails"
    well.set()
    stage.settle()
    report = check(stage.receiver.posts, others + blocked, endpoints=1)
    assert check_order(stage.receiver, "a") == 10
    assert report.doubled == 0


def tries(stage, events):
    """Return how many requests there were for these events."""
    return sum(post.event_id in events for post in list(stage.receiver.posts))
