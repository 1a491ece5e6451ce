"""Prune: jobs that ended long ago, idle rate buckets, expired idempotency keys."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.prune import Pruned, prune
from webhooks_app.core.states import EXHAUSTED
from webhooks_app.models import Delivery, IdempotencyRecord, Job, RateBucket

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def job(**values) -> Job:
    row = bulk_retry(OPERATOR)
    Job.objects.filter(pk=row.pk).update(**values)
    return row


def test_jobs_go_when_they_ended_long_ago():
    job(state="succeeded", finished_at=timezone.now() - 30.1 * DAY)
    kept = [
        job(state="failed", finished_at=timezone.now() - 29.9 * DAY),
        job(state="running", started_at=timezone.now() - 90 * DAY),
    ]
    assert prune() == Pruned(jobs=1)
    assert set(Job.objects.values_list("pk", flat=True)) == {row.pk for row in kept}


def test_buckets_go_when_nobody_uses_them():
    for name, age in (("tenant:a", 1.1), ("host:b", 30), ("tenant:c", 0.9)):
        RateBucket.objects.create(key=name, tokens=0.5, updated_at=timezone.now() - age * DAY)
    assert prune() == Pruned(buckets=2)
    assert RateBucket.objects.get().key == "tenant:c"


def test_they_go_in_batches():
    for place in range(5):
        RateBucket.objects.create(key=f"host:{place}", tokens=1, updated_at=timezone.now() - 2 * DAY)
        job(state="succeeded", finished_at=timezone.now() - 40 * DAY)
    told = []
    assert prune(batch=2, tell=lambda counts: told.append(dict(counts))) == Pruned(jobs=5, buckets=5)
    assert {counts.get("jobs", 0) for counts in told} >= {2, 4, 5}


def test_expired_idempotency_keys_go_too():
    now = timezone.now()
    common = {"caller": "c", "method": "POST", "path": "/", "fingerprint": "f", "started_at": now}
    for key, expiry in (("old", now - DAY), ("new", now + DAY)):
        IdempotencyRecord.objects.create(key=key, expires_at=expiry, **common)
    assert prune() == Pruned(idempotency=1)
    assert IdempotencyRecord.objects.get().key == "new"


def test_a_delivery_that_is_being_resent_stays():
    ended = timezone.now() - 31 * DAY
    row = make_delivery(
        make_endpoint(), make_event(age=32 * DAY), state=EXHAUSTED, finished_at=ended, **leased()
    )
    prune()
    assert Delivery.objects.filter(pk=row.pk).exists()
    Delivery.objects.update(lease_token=None, lease_until=None)
    prune()
    assert not Delivery.objects.exists()
