"""`webhooks_run`: the whole path in one process, without Celery and without a broker."""

import sys

from tests.e2e.invariants import check
from tests.e2e.processes import Process
from tests.e2e.receiver import Reply


class RunCommand(Process):
    """manage.py webhooks_run."""

    name = "run"
    ready_mark = "Delivering webhooks"

    def command(self):
        return [sys.executable, "-m", "tests.e2e.manage", "webhooks_run", "--interval", "0.05"]


def run_command(stage):
    command = RunCommand(stage.folder, stage.choice)
    stage.keep(command)
    stage.workers.append(command)
    return command.start()


def test_two_of_them_deliver_everything_once(stage):
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    stage.endpoint()
    for _ in range(2):
        run_command(stage)
    events = stage.emit(20)
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (40, 40)


def test_sigterm_waits_for_open_requests(stage):
    stage.receiver.on("a", Reply(delay=0.8))
    stage.endpoint()
    command = run_command(stage)
    events = stage.emit(4)
    stage.until(lambda: stage.receiver.count("a") == 4, 10, "requests are open")
    command.terminate()
    assert command.wait(15) == 0
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (4, 4)


def test_killed_and_replaced(stage):
    stage.receiver.on("a", Reply(delay=0.4))
    stage.endpoint()
    command = run_command(stage)
    events = stage.emit(8)
    stage.until(lambda: stage.receiver.count("a") >= 2, 10, "requests are open")
    command.kill()
    run_command(stage)
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1).doubled <= 8
