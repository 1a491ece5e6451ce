"""`webhooks_recover`: what a webhook lacks, done here or left to the workers."""

from datetime import timedelta

import pytest

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event
from tests.management.calling import run
from webhooks_app.actions.disable import disable
from webhooks_app.core.states import EXHAUSTED
from webhooks_app.models import AuditEntry, Delivery, Endpoint, Job

pytestmark = pytest.mark.django_db

COMMAND = "webhooks_recover"


def lacking() -> Endpoint:
    row = make_endpoint()
    for hours in (3, 9):
        make_delivery(row, make_event(age=timedelta(hours=hours)), state=EXHAUSTED)
    make_event(age=timedelta(days=20))
    return row


def test_it_prints_what_was_queued():
    row = lacking()
    assert run(COMMAND, row.public_id, "--since", "4h").out == "1\n"
    assert run(COMMAND, row.public_id, "--since", "12h", "--until", "8h").out == "1\n"
    assert run(COMMAND, row.public_id, "--since", "19d").out == "0\n"
    assert run(COMMAND, row.public_id, "--earliest").out == "1\n"
    assert Delivery.objects.filter(state="pending").count() == 3
    assert AuditEntry.objects.latest("pk").actor_id == COMMAND


def test_in_the_background_it_prints_the_job():
    ran = run(COMMAND, lacking().public_id, "--since", "1d", "--background")
    job = Job.objects.get()
    assert (ran.code, ran.out, job.state) == (0, f"{job.public_id}\n", "queued")


@pytest.mark.parametrize(
    "arguments",
    [["--since", "yesterday"], ["--earliest", "--until", "1h"], ["--since", "1h", "--until", "2h"]],
)
def test_refused_arguments(arguments):
    ran = run(COMMAND, make_endpoint().public_id, *arguments)
    assert (ran.code, ran.out) == (1, "")
    assert ran.fault


def test_unknown_and_disabled_endpoints(monkeypatch):
    assert "no such webhook" in run(COMMAND, "whk_unknown", "--since", "1h").fault
    row = lacking()
    disable(OPERATOR, row)
    assert "Enable it" in run(COMMAND, row.public_id, "--since", "1h").fault
