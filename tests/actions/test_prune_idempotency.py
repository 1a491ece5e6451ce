"""Prune: idempotency keys go when they have expired, in batches."""

from datetime import UTC, datetime, timedelta

import pytest

from webhooks_app.actions.prune_idempotency import prune_idempotency
from webhooks_app.actions.sweep import Sweep
from webhooks_app.models import IdempotencyRecord
from webhooks_app.pipeline.retention import Retention

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)


def keys(count: int, expires_at: datetime) -> None:
    IdempotencyRecord.objects.bulk_create(
        IdempotencyRecord(caller=str(expires_at), key=str(n), started_at=NOW, expires_at=expires_at)
        for n in range(count)
    )


def sweep(*, batch: int = 3, deadline: float | None = None) -> Sweep:
    return Sweep("default", NOW, batch, Retention(lambda _: 30, 30), deadline)


@pytest.mark.parametrize("count", [0, 2, 3, 7])
def test_expired_keys_go_and_others_stay(count: int) -> None:
    keys(count, NOW)
    keys(2, NOW + timedelta(microseconds=1))
    run = sweep()
    prune_idempotency(run)
    assert (run.counts["idempotency"], IdempotencyRecord.objects.count()) == (count, 2)
    assert not run.cut_short


def test_it_stops_when_the_time_is_over() -> None:
    keys(7, NOW)
    run = sweep(deadline=0)
    prune_idempotency(run)
    assert run.cut_short
    assert IdempotencyRecord.objects.count() == 7
