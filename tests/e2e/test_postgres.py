"""PostgreSQL dies under load and comes back: committed events arrive, each attempt is recorded once."""

import threading

from django.db import Error, connections

from tests.e2e.broker import redis_broker
from tests.e2e.invariants import check, rows
from tests.e2e.receiver import Reply
from tests.e2e.settings import ALIAS


class Emitter(threading.Thread):
    """Emits until it is stopped; `sure` are the events whose COMMIT was confirmed."""

    def __init__(self, stage):
        super().__init__(daemon=True)
        self.sure = []
        self._stage = stage
        self._stopped = threading.Event()

    def run(self):
        while not self._stopped.wait(0.03):
            try:
                self.sure += self._stage.emit(1)
            except Error:
                connections[ALIAS].close()
        connections[ALIAS].close()

    def stop(self):
        self._stopped.set()
        self.join(20)


def test_crash_under_load(make_stage, own_postgres, redis_url):
    stage = make_stage(redis_broker(redis_url), postgres=own_postgres.url)
    stage.receiver.on("a", Reply(delay=0.05))
    stage.receiver.on("b", lambda post: Reply(500 if post.attempt == 1 else 200))
    for name in ("a", "b"):
        stage.endpoint(name)
    workers = [stage.worker(concurrency=1), stage.worker(concurrency=1)]
    stage.tick()
    emitter = Emitter(stage)
    emitter.start()
    for count in (30, 80):
        stage.until(lambda count=count: len(stage.receiver.posts) >= count, 20, "deliveries flow")
        own_postgres.kill()
        own_postgres.start()
        connections[ALIAS].close()
    seen = len(stage.receiver.posts)
    stage.until(lambda: len(stage.receiver.posts) >= seen + 20, 20, "deliveries flow again")
    emitter.stop()
    stage.settle(40)
    assert all(worker.running for worker in workers)
    # A COMMIT that was cut off may have happened: the table decides. What was confirmed must be there.
    committed = {row[0] for row in rows("SELECT event_id FROM webhooks_app_outboxentry")}
    assert set(emitter.sure) <= committed
    report = check(stage.receiver.posts, committed, endpoints=2)
    # Each crash may cut off the record of what two processes had in flight at two endpoints.
    assert report.doubled <= 2 * 2 * 2 * 100
    assert report.doubled < report.posts / 2
