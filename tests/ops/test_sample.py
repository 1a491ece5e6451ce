"""The newest attempts: which of them count, and what they come to."""

from datetime import datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from tests.actions.builders import make_delivery, make_endpoint
from webhooks_app.core.classify import OURS
from webhooks_app.models import Attempt, Endpoint
from webhooks_app.ops import sample as asked
from webhooks_app.ops.sample import ErrorCount, Latency, Sample, sample, summary

NOW = timezone.now()
_ids = count(1 << 100)


def row(error: str = "", ms: int = 10, at: datetime = NOW) -> Any:
    return SimpleNamespace(error=error, duration_ms=ms, created_at=at)


def test_nothing_comes_to_nothing():
    assert summary([]) == Sample()


def test_the_rate_is_that_of_the_successes():
    assert summary([row(), row("timeout"), row(), row("status_5xx")]).success_rate == 0.5
    assert summary([row()]).success_rate == 1.0
    assert summary([row("dns")]).success_rate == 0.0


@pytest.mark.parametrize("error", sorted(OURS))
def test_faults_of_ours_are_not_the_receivers(error):
    found = summary([row(), row(error, ms=99_999)])
    assert (found.success_rate, found.latency.p99_ms, found.attempts) == (1.0, 10, 2)
    assert found.errors == (ErrorCount(error, 1, NOW),)
    assert summary([row(error)]).success_rate is None
    assert summary([row(error)]).latency == Latency()


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([7], Latency(7, 7, 7)),
        ([1, 2], Latency(1, 2, 2)),
        (list(range(1, 101)), Latency(50, 95, 99)),
        (list(range(1000, 0, -1)), Latency(500, 950, 990)),
    ],
)
def test_percentiles_are_values_that_occurred(durations, expected):
    assert summary([row(ms=each) for each in durations]).latency == expected


def test_errors_are_counted_and_the_rare_ones_left_out():
    early, late = NOW - timedelta(hours=1), NOW
    rows = [row("timeout", at=late), row("dns", at=late), row("timeout", at=early)]
    rows += [row(f"error_{place:02}", at=early) for place in range(12)]
    errors = summary(rows).errors
    assert errors[0] == ErrorCount("timeout", 2, late)
    assert len(errors) == 10
    assert errors[1:3] == (ErrorCount("dns", 1, late), ErrorCount("error_00", 1, early))


# --- which rows


@pytest.fixture
def endpoint(db: None) -> Endpoint:
    return make_endpoint()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "AT_LEAST", 2)
    monkeypatch.setattr(asked, "AT_MOST", 4)


def attempts(endpoint: Endpoint, *ages: float, **values: Any) -> None:
    """Store attempts that were made so many hours ago, the first of them first."""
    job = make_delivery(endpoint)
    Attempt.objects.bulk_create(
        Attempt(
            # In the order they are made in, as those of leases a millisecond apart are.
            id=UUID(int=next(_ids)),
            delivery=job,
            endpoint=endpoint,
            number=number,
            created_at=NOW - timedelta(hours=age),
            **{
                "event_type": "order.paid",
                "trigger": "schedule",
                "status": "succeeded",
                "duration_ms": 5,
                **values,
            },
        )
        for number, age in enumerate(ages, 1)
    )


@pytest.mark.parametrize(
    ("ages", "counted", "oldest"),
    [
        ([], 0, None),
        ([30], 1, 30),
        ([50, 40, 30], 2, 40),
        ([30, 3, 2, 1], 3, 3),
        ([5, 4, 3, 2, 1], 4, 4),
        ([30, 29, 28, 1], 2, 28),
    ],
)
def test_a_day_of_them_but_a_few_at_least_and_not_too_many(endpoint, ages, counted, oldest):
    attempts(endpoint, *ages)
    found = sample("default", endpoint.pk, NOW)
    assert found.attempts == counted
    assert found.since == (None if oldest is None else NOW - timedelta(hours=oldest))


def test_tests_pings_and_other_endpoints_are_left_out(endpoint):
    attempts(endpoint, 2)
    attempts(endpoint, 1, event_type="webhook.test", trigger="test", status="failed", error="timeout")
    attempts(endpoint, 1, event_type="webhook.ping", trigger="probe", status="failed", error="timeout")
    attempts(make_endpoint(tenant_id="other"), 1)
    found = sample("default", endpoint.pk, NOW)
    assert (found.attempts, found.success_rate, found.errors) == (1, 1.0, ())


@pytest.mark.parametrize("trigger", ["schedule", "manual", "probe"])
def test_every_other_request_counts(endpoint, trigger):
    attempts(endpoint, 1, trigger=trigger)
    assert sample("default", endpoint.pk, NOW).attempts == 1
