"""Helpers for the tests of erasing: payloads to look for afterwards, and jobs that rest."""

import time

from django.utils import timezone

from tests.actions.builders import make_event
from webhooks_app.actions.jobs import OPEN
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.models import Attempt, Event, Job, OutboxEntry

CANARY = b"very-personal"


def personal(**values) -> Event:
    """An event with labels whose payload is the canary."""
    event = make_event(**values)
    entry = {name: getattr(event, name) for name in ("identity_id", "subject")}
    OutboxEntry.objects.filter(pk=event.outbox_id).update(body=CANARY, **entry)
    return event


def waiting_entry(event_id: str = "waiting", *, using: str = "default", **values) -> OutboxEntry:
    """An entry of ann's that no fan-out has taken."""
    columns = {"type": "a", "tenant_id": "acme", "identity_id": "ann", "environment": "live", "body": CANARY}
    columns |= {"occurred_at": timezone.now(), **values}
    return OutboxEntry.objects.using(using).create(event_id=event_id, **columns)


def copy_of(event: Event) -> Event:
    """A copy as a replay under a new id makes it."""
    labels = {"identity_id": event.identity_id, "occurred_at": event.occurred_at}
    copy = make_event(replay_of=event.pk, recorded_at=timezone.now(), **labels)
    OutboxEntry.objects.filter(pk=copy.outbox_id).delete()
    Event.objects.filter(pk=copy.pk).update(body=CANARY, outbox_id=None, outbox_alias=None)
    return copy


def canaries() -> int:
    """Return how many payloads and replies are left."""
    bodies = [*OutboxEntry.objects.values_list("body", flat=True)]
    bodies += Event.objects.exclude(body=None).values_list("body", flat=True)
    bodies += Attempt.objects.values_list("reply_body", flat=True)
    return sum(CANARY in bytes(body) for body in bodies)


def gone_on(job: Job, seconds: float = 20) -> Job:
    """Work on a job that rests in between until it has ended, and return it."""
    deadline = time.monotonic() + seconds
    job.refresh_from_db()
    while job.state in OPEN:
        assert time.monotonic() < deadline, "the job does not end"
        Job.objects.filter(pk=job.pk).update(claimed_until=None)
        run_jobs()
        job.refresh_from_db()
    return job
