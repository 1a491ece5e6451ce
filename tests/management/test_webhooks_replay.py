"""`webhooks_replay`: ids or a window, and the number on stdout."""

from datetime import timedelta

import pytest

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event
from tests.management.calling import run
from webhooks_app.actions.disable import disable
from webhooks_app.core.states import EXHAUSTED
from webhooks_app.models import AuditEntry, Delivery

pytestmark = pytest.mark.django_db

COMMAND = "webhooks_replay"


def test_by_ids():
    row, one, two = make_endpoint(), make_event(), make_event()
    ran = run(COMMAND, row.public_id, "--event", one.public_id, "--event", two.public_id)
    assert (ran.code, ran.out) == (0, "2\n")
    assert Delivery.objects.count() == 2
    assert AuditEntry.objects.latest("pk").actor_id == COMMAND


def test_by_a_window_and_status():
    row = make_endpoint()
    dead = make_delivery(row, make_event(age=timedelta(hours=3)), state=EXHAUSTED)
    make_delivery(row, make_event(age=timedelta(hours=9)), state=EXHAUSTED)
    make_event(age=timedelta(hours=3))
    assert run(COMMAND, row.public_id, "--since", "4h", "--until", "2h", "--status", "dead").out == "1\n"
    dead.refresh_from_db()
    assert dead.state == "pending"
    assert run(COMMAND, row.public_id, "--since", "2000-01-01T00:00Z").out == "3\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--since", "yesterday"],
        ["--since", "2026-01-31T10:00"],
        ["--since", "2026-99-99T10:00Z"],
        ["--since", "999999d"],
        ["--since", "1h", "--event", "evt_1"],
        ["--since", "1h", "--until", "2h"],
        ["--since", "1h", "--status", "lost"],
    ],
)
def test_refused_arguments(arguments):
    ran = run(COMMAND, make_endpoint().public_id, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.fault


def test_unknown_and_disabled_endpoints():
    assert "no such webhook" in run(COMMAND, "whk_unknown", "--since", "1h").fault
    row = make_endpoint()
    disable(OPERATOR, row)
    assert "Enable it" in run(COMMAND, row.public_id, "--since", "1h").fault


def test_to_another_webhook_under_new_ids():
    row, other, event = make_endpoint(), make_endpoint(), make_event()
    arguments = [row.public_id, "--event", event.public_id, "--to", other.public_id]
    assert run(COMMAND, *arguments, "--webhook-id", "new").out == "1\n"
    made = Delivery.objects.get()
    assert (made.endpoint_id, made.event.replay_of) == (other.pk, event.pk)
    assert "must be same or new" in run(COMMAND, *arguments, "--webhook-id", "other").fault
    assert "no such webhook" in run(COMMAND, *arguments[:-1], "whk_unknown").fault
