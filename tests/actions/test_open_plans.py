"""What is asked about an endpoint's open deliveries, under locks, is read along their index: a few rows."""

from dataclasses import replace

import pytest
from django.db import connection
from django.utils import timezone

from tests.actions.builders import OPERATOR, URL, make_endpoint
from tests.plans import explained
from webhooks_app.actions import ending
from webhooks_app.actions.ending import End, end_open
from webhooks_app.actions.hasten import AT_ONCE, HastenSteps
from webhooks_app.actions.job_steps import BATCH
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.core.policies import PRESETS
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Delivery, Endpoint, Job
from webhooks_app.pipeline import probes
from webhooks_app.pipeline.probes import bring_back
from webhooks_app.pipeline.transactions import reading

pytestmark = [pytest.mark.django_db, pytest.mark.pg]

MANY = 12_000
EVENTS = """
INSERT INTO webhooks_app_event (public_id, type, tenant_id, environment, occurred_at, recorded_at,
  fanned_out_at, fan_out_cursor)
SELECT 'evt_old' || n, 'order.paid', 'acme', 'live', now(), now(), now(), 0
FROM generate_series(1, %s) n
"""
DELIVERIES = """
INSERT INTO webhooks_app_delivery (endpoint_id, event_id, state, priority, due_at, attempts, step, deferrals,
  lapses, position, last_error, occurred_at, created_at)
SELECT %(endpoint)s, id, %(state)s, id %% 3,
  CASE WHEN %(state)s = 'pending' THEN now() + (id %% 1440 + 1) * interval '1 minute' END,
  2, 1, 0, 0, id, '', now(), now() FROM webhooks_app_event ORDER BY id
"""
DELIVERY = "webhooks_app_delivery"


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """An endpoint where very many deliveries wait, behind those of another in the table.

    With the parameter `young` the planner has statistics from before they were made.
    """
    other, row = make_endpoint(), make_endpoint()
    with connection.cursor() as cursor:
        cursor.execute(EVENTS, [MANY])
        cursor.execute(DELIVERIES, {"endpoint": other.pk, "state": "delivered"})
        cursor.execute(f"ANALYZE webhooks_app_event, {DELIVERY}")
        # They wait for minutes, up to a day.
        cursor.execute(DELIVERIES, {"endpoint": row.pk, "state": "pending"})
        if getattr(request, "param", None) != "young":
            cursor.execute(f"ANALYZE {DELIVERY}")
        # What a server on SSDs is told.
        cursor.execute("SET LOCAL random_page_cost = 1.1")
    return row


def test_a_batch_of_endings(endpoint: Endpoint) -> None:
    with explained(analyze=True) as plans:
        assert end_open("default", endpoint.pk, End(CANCELLED)) == ending.BATCH
    assert plans.most_read(DELIVERY) <= ending.BATCH


def test_a_new_url(endpoint: Endpoint) -> None:
    with explained(analyze=True) as plans:
        update_endpoint(OPERATOR, endpoint, {"url": URL + "/new", "retarget_pending": True})
    assert plans.most_read(DELIVERY) <= AT_ONCE + 1


@pytest.mark.parametrize("endpoint", ["known", "young"], indirect=True)
def test_a_batch_of_what_a_new_url_is_to_have(endpoint: Endpoint) -> None:
    update_endpoint(OPERATOR, endpoint, {"url": URL + "/new", "retarget_pending": True})
    job = Job.objects.get()
    for _ in range(2):
        with explained(analyze=True) as plans:
            portion = HastenSteps().look("default", job)
        assert len(portion.rows) == BATCH
        # Those of the other endpoint too, where the index of all is walked.
        assert plans.most_read(DELIVERY) <= 2 * BATCH
        job.cursor = portion.reached


def test_what_stands_back_is_found_among_what_is_due_soon(endpoint: Endpoint) -> None:
    now, policy = timezone.now(), PRESETS["exponential"]
    assert policy.breaker is not None
    patient = replace(policy, breaker=replace(policy.breaker, open_seconds=4 * 3600.0))
    with connection.cursor() as cursor:
        # In a table of this size a sort is cheap; in a large one a walk by key seems cheaper.
        cursor.execute("SET LOCAL enable_sort = off")
    with explained() as plans, reading("default") as tx:
        bring_back(tx, {endpoint.pk: patient}, now)
    assert Delivery.objects.filter(due_at=now).count() == probes.AT_ONCE
    assert plans.indexes_read() == {"webhooks_delivery_due"}
