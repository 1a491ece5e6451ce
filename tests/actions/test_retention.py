"""One rule of retention: what recovery offers leaves, what prune would end does not, whoever is asked."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event
from tests.actions.receiving import SECRET, Receiver
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.missed import missed
from webhooks_app.actions.prune import prune
from webhooks_app.actions.recover import recover
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resend import resend
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.actions.scope import get_event
from webhooks_app.exceptions import Conflict
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, Job, Tenant
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.contents import read_contents

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
SINCE = timezone.now() - 90 * DAY
# How old an event of a tenant with 5 days is, and whether it is within its retention.
AGES = [(4.9, True), (5.1, False)]


class Host:
    """A host that knows its tenants itself."""

    def partner_of(self, tenant_id: str) -> str | None:
        return None

    def is_suspended(self, tenant_id: str | None, partner_id: str | None) -> bool:
        return False

    def retention_days(self, tenant_id: str) -> int | None:
        return 5 if tenant_id == "short" else None


@pytest.fixture(params=["table", "host"])
def short(request: pytest.FixtureRequest, network: Callable[..., None]) -> None:
    """The tenant `short` keeps its events for 5 days; a table that says otherwise is nobody's to read."""
    if request.param == "host":
        network(TENANCY="tests.actions.test_retention.Host")
    Tenant.objects.create(id="short", retention_days=5 if request.param == "table" else 300)


@pytest.fixture(params=["short", None])
def row(request: pytest.FixtureRequest, receiver: Receiver, network: Callable[..., None]) -> Endpoint:
    """An endpoint of the tenant's own, and one of the platform."""
    network(REQUIRE_HTTPS=False, EXTRA_PORTS=[receiver.server_port])
    url = f"http://hooks.customer.com:{receiver.server_port}/in"
    return make_endpoint(tenant_id=request.param, url=url, secret=SECRET)


def dead(row: Endpoint, days: float) -> Delivery:
    event = make_event(tenant_id="short", age=days * DAY)
    return make_delivery(row, event, state="exhausted", last_error="timeout")


def queued_by(job: Job) -> int:
    run_jobs()
    job.refresh_from_db()
    return job.done


def can_be_resent(delivery: Delivery) -> int:
    try:
        return int(resend(OPERATOR, delivery).status == "succeeded")
    except Conflict:
        return 0


WAYS: dict[str, Callable[[Delivery], int]] = {
    "missed": lambda each: len(missed(OPERATOR, each.endpoint).rows),
    "missed since": lambda each: len(missed(OPERATOR, each.endpoint, since=SINCE).rows),
    "replay of ids": lambda each: replay(OPERATOR, each.endpoint, event_ids=[each.event.public_id]),
    "replay of a window": lambda each: replay(OPERATOR, each.endpoint, since=SINCE),
    "recover": lambda each: queued_by(recover(OPERATOR, each.endpoint, since=SINCE)),
    "bulk retry": lambda each: queued_by(bulk_retry(OPERATOR, since=SINCE)),
    "resend": can_be_resent,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("days", "kept"), AGES)
def test_every_way_back_ends_with_the_retention(
    short: None, row: Endpoint, days: float, kept: bool, way: str
):
    assert WAYS[way](dead(row, days)) == int(kept)


@pytest.mark.parametrize(("days", "kept"), AGES)
def test_what_is_open_leaves_or_ends_as_prune_would_end_it(
    short: None, row: Endpoint, receiver: Receiver, days: float, kept: bool
):
    """An open delivery that was held past the retention, and not seen by prune since."""
    delivery = make_delivery(row, make_event(tenant_id="short", age=days * DAY))
    inline.deliver([row.pk])
    delivery.refresh_from_db()
    assert len(receiver.requests) == int(kept)
    end = ("delivered", "") if kept else ("expired", "event_unavailable")
    assert (delivery.state, delivery.last_error) == end


@pytest.mark.parametrize(("days", "kept"), AGES)
def test_prune_goes_by_the_same_days(short: None, row: Endpoint, days: float, kept: bool):
    delivery = make_delivery(row, make_event(tenant_id="short", age=days * DAY))
    prune()
    delivery.refresh_from_db()
    assert delivery.state == ("pending" if kept else "expired")


def test_an_attempt_that_could_not_be_repeated_in_time_is_the_last(
    short: None, row: Endpoint, receiver: Receiver
):
    """What `expires_at` does: the end is known with the failure, not only when the next attempt comes due."""
    receiver.status = 500
    minutes = timedelta(minutes=1)
    soon, later = (make_event(tenant_id="short", age=5 * DAY - gap) for gap in (minutes / 4, 60 * minutes))
    for event in (soon, later):
        make_delivery(row, event)
    inline.deliver([row.pk])
    found = dict(Delivery.objects.values_list("event_id", "state"))
    assert found == {soon.pk: "expired", later.pk: "pending"}
    assert list(Attempt.objects.values_list("error", flat=True)) == ["status_5xx"] * 2


def test_it_can_be_read_until_prune_has_removed_it(short: None, row: Endpoint):
    event = make_event(tenant_id="short", age=6 * DAY)
    assert get_event(OPERATOR, event.public_id) == event
    assert read_contents("default", [event.pk])[event.pk].body == b"{}"
    prune()
    assert not Event.objects.exists()


def test_a_shorter_retention_that_is_raised_brings_back_what_prune_has_not_seen(network: Any, row: Endpoint):
    tenant = Tenant.objects.create(id="short", retention_days=5)
    dead(row, 6)
    assert missed(OPERATOR, row).rows == []
    tenant.retention_days = 9
    tenant.save()
    assert len(missed(OPERATOR, row).rows) == 1


def test_the_hosts_class_is_asked_once_for_a_tenant_whatever_is_sent(network: Any, monkeypatch: Any):
    """It is asked in the thread that sends for everybody: what it costs is every delivery's."""
    network(TENANCY="tests.actions.test_retention.Host")
    events = [make_event(tenant_id=name) for name in ("short", "other") for _ in range(5)]
    asked: list[str] = []
    monkeypatch.setattr(Host, "retention_days", lambda self, tenant_id: asked.append(tenant_id))
    assert len(read_contents("default", [event.pk for event in events])) == 10
    assert sorted(asked) == ["other", "short"]
