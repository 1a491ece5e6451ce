"""Hasten: a new URL gets what waits, a little at once, much in the background."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.actions.builders import OPERATOR, URL, leased, make_delivery, make_endpoint, tenant
from tests.actions.jobs import counts, finished, one_batch
from tests.actions.receiving import Receiver
from webhooks_app.actions import hasten as hasten_module
from webhooks_app.actions import test_send as sending
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import AuditEntry, Delivery, Endpoint, Job

pytestmark = pytest.mark.django_db

LATER = timezone.now() + timedelta(hours=8)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than two be many, and a batch two."""
    monkeypatch.setattr(hasten_module, "AT_ONCE", 2)
    monkeypatch.setattr(hasten_module, "BATCH", 2)


def waiting(endpoint: Endpoint, count: int) -> list[Delivery]:
    return [make_delivery(endpoint, due_at=LATER, attempts=7, step=7) for _ in range(count)]


def move(endpoint: Endpoint, **changes: Any) -> Endpoint:
    url = endpoint.url.replace("//hooks", "//new")
    return update_endpoint(tenant(), endpoint, {"url": url, "retarget_pending": True, **changes})


def later() -> list[int]:
    """Return the keys of the deliveries that are due later."""
    return list(
        Delivery.objects.filter(due_at__gt=timezone.now()).order_by("pk").values_list("pk", flat=True)
    )


def test_a_few_come_due_with_the_change() -> None:
    row = make_endpoint()
    waiting(row, 2)
    move(row)
    assert later() == []
    assert not Job.objects.exists()


def test_many_come_due_batch_by_batch() -> None:
    row = make_endpoint()
    made = waiting(row, 5)
    other = waiting(make_endpoint(), 1)
    with CaptureQueriesContext(connection) as queries:
        move(row)
    assert not [query for query in queries if query["sql"].startswith('UPDATE "webhooks_app_delivery"')]
    assert len(later()) == 6
    job = Job.objects.get()
    assert (job.kind, job.endpoint_id, counts(job)) == ("hasten", row.pk, ("queued", None, 0, 0))
    assert counts(one_batch(job)) == ("running", None, 2, 0)
    assert later() == [each.pk for each in (*made[2:], *other)]
    assert counts(finished(job)) == ("succeeded", 5, 5, 0)
    assert later() == [other[0].pk]
    assert set(Delivery.objects.values_list("attempts", "step", "state")) == {(7, 7, "pending")}
    begun = AuditEntry.objects.get(action="webhook.hastening_begun")
    assert (begun.target_id, begun.details) == (row.public_id, {"job": job.public_id, "total": None})


def test_what_fails_at_the_new_url_meanwhile_keeps_its_new_time() -> None:
    row = make_endpoint()
    made = waiting(row, 5)
    move(row)
    job = one_batch(Job.objects.get())
    Delivery.objects.filter(pk=made[0].pk).update(due_at=LATER, attempts=8)
    assert counts(finished(job)) == ("succeeded", 5, 5, 0)
    assert later() == [made[0].pk]


def test_what_is_being_sent_and_what_has_ended_is_left_alone() -> None:
    row = make_endpoint()
    made = waiting(row, 4)
    move(row)
    Delivery.objects.filter(pk=made[0].pk).update(**leased())
    Delivery.objects.filter(pk=made[1].pk).update(state="delivered", due_at=None)
    assert counts(finished(Job.objects.get())) == ("succeeded", 3, 2, 1)
    assert later() == [made[0].pk]


@pytest.mark.parametrize("count", [1, 2])
def test_only_the_heads_of_lanes_come_due(count: int) -> None:
    row = make_endpoint(ordering="subject")
    for n in range(2 * count):
        head = {"lane": f"o{n}", "priority": Delivery.Priority.ORDERED, "position": 2 * n}
        make_delivery(row, due_at=LATER, **head)
        make_delivery(row, **{**head, "due_at": None, "position": 2 * n + 1})
    move(row)
    assert Job.objects.count() == count - 1
    for job in Job.objects.all():
        finished(job)
    due = Delivery.objects.filter(due_at__lte=timezone.now()).values_list("position", flat=True)
    assert sorted(due) == [2 * n for n in range(2 * count)]
    assert Delivery.objects.filter(due_at=None).count() == 2 * count


@pytest.mark.parametrize("number", [2, 3])
def test_at_a_disabled_endpoint_nothing_comes_due_only_to_end(number: int) -> None:
    row = make_endpoint()
    made = waiting(row, number)
    disable(OPERATOR, row)
    moved = move(row)
    assert later() == [each.pk for each in made]
    assert not Job.objects.exists()
    enable(OPERATOR, moved)
    assert later() == [each.pk for each in made]


def test_a_change_that_enables_too_hastens_and_one_that_disables_does_not() -> None:
    row = make_endpoint()
    made = waiting(row, 1)
    moved = move(row, enabled=False)
    assert later() == [made[0].pk]
    update_endpoint(tenant(), moved, {"url": URL, "enabled": True, "retarget_pending": True})
    assert later() == []


def test_disabled_meanwhile_fails_the_job() -> None:
    row = make_endpoint()
    waiting(row, 3)
    disable(OPERATOR, move(row))
    job = finished(Job.objects.get())
    assert (job.state, job.error, len(later())) == ("failed", "webhook_disabled", 3)


def test_deleted_meanwhile_is_skipped() -> None:
    row = make_endpoint()
    made = waiting(row, 3)
    move(row)
    Delivery.objects.filter(pk=made[0].pk).update(**leased())
    delete_endpoint(OPERATOR, row)
    assert counts(finished(Job.objects.get())) == ("succeeded", 1, 0, 1)
    Endpoint.objects.filter(pk=row.pk).delete()
    assert Delivery.objects.get(pk=made[0].pk).due_at == LATER


def test_a_url_that_has_proven_itself_gets_many_in_the_background(
    endpoint: Endpoint, receiver: Receiver, network: Any
) -> None:
    network(URL_CHANGE="disable")
    waiting(endpoint, 3)
    moved = move(endpoint)
    assert not Job.objects.exists()
    sending.test_send(tenant(), moved)
    assert counts(finished(Job.objects.get())) == ("succeeded", 3, 3, 0)
    assert later() == []


def test_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    row = make_endpoint()
    made = make_delivery(row, due_at=timezone.now() - timedelta(hours=1))
    before: datetime | None = made.due_at
    move(row)
    assert (Delivery.objects.get().due_at, Job.objects.count()) == (before, 0)
