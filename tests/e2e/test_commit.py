"""Only what commits is sent, and all of it: also when the process dies before it published a hint (B018)."""

import subprocess
import sys

import pytest
from django.db import transaction

from tests.e2e.invariants import check
from tests.e2e.processes import ROOT
from tests.e2e.settings import ALIAS
from webhooks_app import emit, emit_many


class ChangeOfMindError(Exception):
    """Ends a block without a commit."""


def lose_an_event():
    with transaction.atomic(using=ALIAS):
        emit("order.lost", {}, tenant="t", owner=("shop", "1"))
        raise ChangeOfMindError


def test_only_what_commits_is_sent_and_only_once(stage):
    stage.endpoint()
    stage.worker(concurrency=1)
    stage.tick()
    item = {"type": "order.paid", "data": {}, "tenant": "t", "event_id": "order-7", "owner": ("shop", "1")}
    with pytest.raises(ChangeOfMindError):
        lose_an_event()
    with transaction.atomic(using=ALIAS):
        first = emit("order.kept", {}, tenant="t", owner=("shop", "1"))
        with pytest.raises(ChangeOfMindError):
            lose_an_event()
        emit_many([item, item])
    with transaction.atomic(using=ALIAS):
        emit(**item)
        last = emit("order.kept", {}, tenant="t", owner=("shop", "1"))
    stage.settle()
    assert check(stage.receiver.posts, [first.id, "order-7", last.id], endpoints=1).posts == 3
    numbers = stage.rows("SELECT event_id, sequence FROM webhooks_app_outboxentry ORDER BY id")
    assert numbers == [(first.id, 1), ("order-7", 2), (last.id, 3)]


def test_the_emitting_process_is_killed_right_after_its_commit(stage):
    """No hint was published: the tick finds the events. Nor are there any for what had not committed."""
    stage.endpoint()
    stage.worker(concurrency=1)
    script = """
import django, os, signal
django.setup()
from django.db import transaction
from webhooks_app import emit
from webhooks_app.pipeline import doorbell
doorbell.ring = lambda **_: None
for place in range(3):
    with transaction.atomic(using="e2e"):
        print(emit("order.paid", {}, tenant="t").id, flush=True)
with transaction.atomic(using="e2e"):
    emit("order.lost", {}, tenant="t")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=stage.choice.environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    events = done.stdout.split()
    assert len(events) == 3, done.stderr
    stage.tick()
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1).posts == 3
