"""What an endpoint lacks is found along indexes, a bounded part at a time, however many events there are."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint
from tests.plans import Plans, explained
from webhooks_app.actions import key_ranges, missed
from webhooks_app.actions.job_steps import BATCH
from webhooks_app.actions.recover import RecoverSteps, recover
from webhooks_app.models import Endpoint, Job

pytestmark = [pytest.mark.django_db, pytest.mark.pg, pytest.mark.usefixtures("tables_as_new")]

EVENTS, DAYS, WINDOW = 24_000, 20, 5
# Nine of ten events are one tenant's, a fiftieth another's; they occurred one after another.
ROWS = """
INSERT INTO webhooks_app_event (public_id, type, tenant_id, environment, occurred_at, recorded_at,
  outbox_alias, outbox_id, fanned_out_at, fan_out_cursor)
SELECT 'evt_old' || n, 'order.paid',
  CASE WHEN n %% 50 = 0 THEN 'few' WHEN n %% 10 = 1 THEN 'rest-' || n %% 70 ELSE 'many' END,
  'live', moment, moment, 'default', n, moment, 0
FROM (SELECT n, now() - %(span)s + n * (%(span)s / %(events)s) AS moment
  FROM generate_series(1, %(events)s) n) made;
"""
# A tenth of the deliveries died, and for another tenth of the events there is none.
DELIVERIES = """
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, attempts, step, deferrals,
  lapses, position, last_error, occurred_at, created_at, finished_at, first_delivered_at)
SELECT %(endpoint)s, id, CASE WHEN digit = 3 THEN 'exhausted' ELSE 'delivered' END, 0, 1, 0, 0, 0, id, '',
  occurred_at, occurred_at, occurred_at, CASE WHEN digit <> 3 THEN occurred_at END
FROM (SELECT *, (outbox_id + outbox_id / 50) %% 10 AS digit FROM webhooks_app_event) AS event
WHERE digit <> 7
"""
EVENT, DELIVERY = "webhooks_app_event", "webhooks_app_delivery"


@pytest.fixture(params=["many", "few", None])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """An endpoint of the tenant that has most events, of one that has few, or of the platform."""
    row = make_endpoint(tenant_id=request.param)
    other = make_endpoint(tenant_id=request.param)
    Endpoint.objects.update(created_at=timezone.now() - timedelta(days=DAYS + 1))
    with connection.cursor() as cursor:
        cursor.execute(ROWS, {"events": EVENTS, "span": timedelta(days=DAYS)})
        for each in (row, other):
            cursor.execute(DELIVERIES, {"endpoint": each.pk})
        cursor.execute(f"ANALYZE {EVENT}, {DELIVERY}")
        # What a server on SSDs is told; with the price of turning discs a table of this size is read whole.
        cursor.execute("SET LOCAL random_page_cost = 1.1")
    return Endpoint.objects.get(pk=row.pk)


def bounded(plans: Plans, most: int) -> None:
    """Fail unless indexes bound every statement to so many rows of each table."""
    plans.check()
    assert plans.most_read(EVENT) <= most
    assert plans.most_read(DELIVERY) <= most


def test_a_batch_of_recover(endpoint: Endpoint):
    job = recover(OPERATOR, endpoint, since=timezone.now() - timedelta(days=DAYS))
    # Behind the first half: what was done already is not looked at again.
    Job.objects.filter(pk=job.pk).update(cursor=job.params["last"] - EVENTS // 2)
    job.refresh_from_db()
    with explained(analyze=True) as plans:
        portion = RecoverSteps().look("default", job)
    assert len(portion.rows) == (48 if endpoint.tenant_id == "few" else BATCH)
    bounded(plans, key_ranges.FIRST * key_ranges.GROWTH)


def test_the_count_of_recover(endpoint: Endpoint):
    """A tenant's window is a range of its index; the platform has none by time, and reads every event."""
    with explained(analyze=True) as plans:
        job = recover(OPERATOR, endpoint, since=timezone.now() - timedelta(hours=WINDOW))
    assert job.total
    if endpoint.tenant_id is not None:
        bounded(plans, EVENTS * WINDOW // 24 // DAYS)


def test_pages_of_what_is_missed(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(missed, "STRETCH", 500)
    first = missed.missed(OPERATOR, endpoint, limit=20)
    with explained(analyze=True) as plans:
        page = missed.missed(OPERATOR, endpoint, cursor=first.cursor, limit=20)
    assert len(page.rows) == 20
    # A few more, which the end of a stretch takes.
    bounded(plans, 510)
