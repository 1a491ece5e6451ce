"""Counted beforehand: what a job would be about is told without beginning one, by the same rules."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event, tenant
from webhooks_app.actions import jobs
from webhooks_app.actions.bulk_retry import bulk_retry, retryable
from webhooks_app.actions.disable import disable
from webhooks_app.actions.recover import recover, recoverable
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Job

pytestmark = pytest.mark.django_db

SINCE = timezone.now() - timedelta(days=2)
FILTERS: list[dict[str, Any]] = [
    {},
    {"status": "exhausted"},
    {"error": "timeout"},
    {"event_type": "order.paid", "since": SINCE, "until": timezone.now() + timedelta(days=1)},
    {"status": "cancelled", "error": "timeout"},
]


@pytest.mark.parametrize("filters", FILTERS)
def test_deliveries_to_retry(filters: dict[str, Any]) -> None:
    mine, other = make_endpoint(), make_endpoint()
    for row in (mine, other):
        make_delivery(row, state="exhausted", last_error="timeout")
        make_delivery(row, state="failed_permanent", last_error="status_4xx")
        make_delivery(row, make_event(type="invoice.paid"), state="cancelled")
    for endpoint in (None, mine):
        found = retryable(tenant(), endpoint=endpoint, **filters)
        assert not Job.objects.exists()
        assert found == bulk_retry(tenant(), endpoint=endpoint, **filters).total
        Job.objects.all().delete()


def test_events_to_recover() -> None:
    row = make_endpoint()
    make_delivery(row, state="exhausted")
    make_delivery(row, state="cancelled")
    make_event()
    make_event(age=timedelta(days=3))
    audited = AuditEntry.objects.count()
    assert recoverable(OPERATOR, row, since=SINCE) == 2
    assert (Job.objects.count(), AuditEntry.objects.count()) == (0, audited)
    assert recover(OPERATOR, row, since=SINCE).total == 2


@pytest.mark.parametrize(
    "count",
    [
        lambda actor, row, **values: retryable(actor, endpoint=row, **values),
        lambda actor, row, **values: recoverable(actor, row, **{"since": SINCE, **values}),
    ],
)
def test_what_a_job_refuses_is_refused(count: Callable[..., int], monkeypatch: pytest.MonkeyPatch) -> None:
    row = make_endpoint()
    with pytest.raises(NotFound):
        count(tenant("other"), row)
    with pytest.raises(PermissionDenied):
        count(tenant(permissions=frozenset({"webhooks:read"})), row)
    with pytest.raises(InvalidRequest, match="later than since"):
        count(OPERATOR, row, since=SINCE, until=SINCE)
    make_delivery(row, state="exhausted")
    monkeypatch.setattr(jobs, "MAX_TOTAL", 0)
    with pytest.raises(InvalidRequest, match="choose less"):
        count(OPERATOR, row)
    disable(OPERATOR, row)
    with pytest.raises(Conflict):
        count(OPERATOR, row)
