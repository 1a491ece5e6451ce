"""`webhooks_prune`: the counts on stdout, progress on stderr, exit code 3 when time runs out."""

from datetime import timedelta
from itertools import count

import pytest
from django.utils import timezone

from tests.actions.builders import make_attempt, make_delivery, make_endpoint, make_event
from tests.management.calling import run
from webhooks_app.actions import sweep
from webhooks_app.core.states import EXHAUSTED
from webhooks_app.management.commands import webhooks_prune
from webhooks_app.models import Delivery

pytestmark = pytest.mark.django_db


@pytest.fixture
def old_deliveries():
    """Three deliveries that ended long ago."""
    row, long_ago = make_endpoint(), timezone.now() - timedelta(days=31)
    for _ in range(3):
        event = make_event(age=timedelta(days=32))
        make_attempt(make_delivery(row, event, state=EXHAUSTED, finished_at=long_ago))


def test_it_prints_what_it_deleted(old_deliveries):
    ran = run("webhooks_prune")
    assert (ran.code, ran.err) == (0, "")
    deleted = "deleted: 3 events, 3 deliveries, 3 attempts, 3 outbox, 0 endpoints"
    assert ran.out == f"{deleted}, 0 idempotency, 0 jobs, 0 buckets\n"


def test_it_tells_how_far_it_has_come(old_deliveries, monkeypatch):
    seconds = count(step=10)
    monkeypatch.setattr(webhooks_prune.time, "monotonic", lambda: next(seconds))
    assert "2 deliveries" in run("webhooks_prune", "--batch", "1").err


def test_it_says_when_it_was_cut_short(old_deliveries, monkeypatch):
    seconds = count()
    monkeypatch.setattr(sweep.time, "monotonic", lambda: next(seconds))
    ran = run("webhooks_prune", "--batch", "1", "--max-seconds", "3")
    assert ran.code == 3
    assert "run it again" in ran.fault
    assert 0 < Delivery.objects.count() < 3


def test_refused_arguments():
    assert run("webhooks_prune", "--batch", "0").code == 1
