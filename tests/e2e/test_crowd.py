"""Many workers at once, and bad neighbours: caps hold over all processes, healthy endpoints stay quick."""

import time

from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK
from webhooks_app.pipeline.queue import FAN_OUT


def test_two_fan_outs_and_four_deliverers(stage):
    """Every step runs in several processes at once; nobody sends twice, no cap is exceeded."""
    for name in "abc":
        stage.receiver.on(name, lambda post: Reply(500 if post.attempt == 1 else 200, delay=0.01))
        stage.endpoint(name, max_in_flight=3)
    for _ in range(3):
        stage.worker(concurrency=2)
    stage.tick(0.2)
    events = []
    for _ in range(5):
        events += stage.emit(10)
        for _ in range(4):
            stage.send(FAN_OUT)
    stage.settle(40)
    report = check(stage.receiver.posts, events, endpoints=3)
    assert (report.posts, report.attempts) == (300, 300)
    assert max(stage.receiver.peak.values()) <= 3
    assert stage.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


def test_hanging_neighbours_hold_up_nobody(stage):
    """Four dead endpoints with much waiting, one after another, then a healthy one (B122)."""
    hang = {**QUICK, "waits": [60], "total_timeout": 8.0}
    for name in ("h1", "h2", "h3", "h4"):
        stage.receiver.on(name, Reply(delay=8.0))
        stage.endpoint(name, tenant="bad", policy_overrides=hang)
    stage.endpoint("good", tenant="good")
    stage.worker(concurrency=2)
    stage.tick()
    stage.emit(100, tenant="bad")
    stage.until(lambda: len(stage.receiver.posts) == 16, 15, "four windows of four hang")
    started = {}
    for _ in range(10):
        event = stage.emit(1, tenant="good")[0]
        started[event] = time.monotonic()
        stage.until(lambda event=event: stage.seen(event), 5, "the healthy endpoint got its event")
    took = sorted(post.at - started[post.event_id] for post in stage.receiver.at("good"))
    assert took[-1] < 2.0
    assert took[5] < 0.5
    assert len(stage.receiver.posts) == 26, "the dead ones got no more than their share"


def test_memory_stays_flat(stage):
    """Eight hundred more deliveries need no more memory than the first four hundred (B162)."""
    stage.receiver.on("a", Reply(body=b"x" * 8192))
    stage.endpoint(policy_overrides={**QUICK, "total_timeout": 5.0})
    worker = stage.worker(concurrency=1)
    stage.tick(1.0)

    def memory_after(count):
        stage.emit(count)
        stage.settle(60)
        return resident_kb(worker.children[0])

    warm = memory_after(400)
    assert memory_after(800) - warm < 4096


def resident_kb(pid):
    """Return how much memory a process has in use, in kB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
