"""`webhooks_erase`: counts first, erases when told to."""

import pytest

from tests.actions.builders import make_event
from tests.management.calling import run
from webhooks_app.management import working
from webhooks_app.models import AuditEntry, Event, Job, OutboxEntry

pytestmark = pytest.mark.django_db

COMMAND = "webhooks_erase"


def test_without_yes_nothing_changes():
    make_event()
    ran = run(COMMAND, "--tenant", "acme")
    assert (ran.code, ran.out) == (0, "1 events have payloads; repeat with --yes to remove them\n")
    assert OutboxEntry.objects.count() == 1
    assert not Job.objects.exists()


def test_with_yes_it_waits_for_the_end():
    make_event(identity_id="ann"), make_event(identity_id="bob")
    ran = run(COMMAND, "--tenant", "acme", "--identity", "ann", "--yes")
    assert (ran.code, ran.out) == (0, "1 payloads removed\n")
    assert OutboxEntry.objects.count() == 1
    assert AuditEntry.objects.latest("pk").actor_id == COMMAND


def test_beside_another_worker(monkeypatch):
    make_event()
    answers = [False, False]
    turn = working.take_turn
    monkeypatch.setattr(working, "PAUSE", 0)
    monkeypatch.setattr(working, "take_turn", lambda *given: answers.pop() if answers else turn(*given))
    assert run(COMMAND, "--tenant", "acme", "--yes").out == "1 payloads removed\n"


def test_refused_and_failed():
    for asked in ([], ["--yes"]):
        assert run(COMMAND, *asked).fault == "give at least one of --tenant, --identity and --subject"
    assert "--tenant must have 1 to 128 characters" in run(COMMAND, "--tenant", "x" * 129).fault
    make_event()
    Event.objects.update(outbox_alias="gone")
    ran = run(COMMAND, "--tenant", "acme", "--yes")
    assert (ran.code, ran.out) == (1, "")
    assert "failed: outbox_unreachable: gone (ConnectionDoesNotExist); make them answer" in ran.fault
