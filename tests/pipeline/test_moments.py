"""A claimed delivery has the moments of its row, to the microsecond: ids and deadlines are made of them."""

from datetime import UTC, datetime

import pytest

from webhooks_app.core.ids import delivery_id
from webhooks_app.models import Delivery

from .driving import claim, waiting
from .factories import EndpointFactory

pytestmark = pytest.mark.django_db

MOMENTS = [
    datetime(2026, 10, 22, 10, 1, 41, microsecond, tzinfo=UTC)
    for microsecond in (0, 1, 499, 500, 999, 1000, 123_456, 500_000, 999_499, 999_500, 999_999)
]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: f"{moment:%f}")
def test_moments_of_a_job(moment: datetime):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    Delivery.objects.update(created_at=moment, started_at=None, expires_at=datetime(2090, 1, 1, tzinfo=UTC))
    delivery.refresh_from_db()
    (job,) = claim(endpoint).jobs
    assert datetime.fromtimestamp(job.created, UTC) == moment
    assert datetime.fromtimestamp(job.started, UTC) == moment
    assert job.expires == datetime(2090, 1, 1, tzinfo=UTC).timestamp()
    assert delivery_id(job.id, datetime.fromtimestamp(job.created, UTC)) == delivery.public_id
