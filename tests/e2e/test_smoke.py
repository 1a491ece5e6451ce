"""The whole path in real processes: beat, worker, broker, database, receiver."""

from tests.e2e.invariants import check


def test_every_event_arrives_once(stage):
    for name in ("a", "b"):
        stage.endpoint(name)
    stage.beat()
    stage.worker()
    events = stage.emit(20)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=2)
    assert (report.posts, report.attempts, report.unrecorded) == (40, 40, [])
