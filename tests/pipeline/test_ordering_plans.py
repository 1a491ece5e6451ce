"""What the statements about lanes read: the heads and what is due, however much is parked."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from tests.plans import explained
from webhooks_app.models import Delivery, Endpoint
from webhooks_app.pipeline import inline, tick
from webhooks_app.pipeline.lanes import CHAIN, PARKED_AT_ONCE

from .driving import ALIAS, claim
from .ordered import crowd, ordered, owned
from .receiver import Receiver, reply

pytestmark = [pytest.mark.django_db, pytest.mark.pg, pytest.mark.usefixtures("tables_as_new")]

PARKED = 8_000
TABLE = "webhooks_app_delivery"


@pytest.fixture
def held() -> Endpoint:
    """An endpoint with a blocked lane of thousands of parked rows."""
    endpoint = ordered("subject")
    (head,) = owned(endpoint, "blocked")
    crowd(endpoint, head.lane or "", PARKED)
    Delivery.objects.exclude(pk=head.pk).update(due_at=None)
    Delivery.objects.filter(pk=head.pk).update(due_at=timezone.now() + timedelta(hours=1))
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {TABLE}")
    return endpoint


def test_a_lease(held: Endpoint):
    owned(held, "blocked", 2)
    for owner in ("a", "b", "c"):
        owned(held, owner, 3)
    with explained(analyze=True) as plans:
        assert len(claim(held).units) == 3
    plans.check()
    assert {"webhooks_delivery_due", "webhooks_delivery_lane"} <= plans.indexes()
    assert plans.most_read(TABLE) <= PARKED_AT_ONCE


def test_a_record_and_what_comes_next(held: Endpoint, receiver: Receiver):
    rows = owned(held, "a", CHAIN)
    receiver.script(held, *[reply(200)] * 5, reply(500))
    with explained() as plans:
        inline.deliver([held.pk])
    assert len(receiver.requests) == 6
    # The other tables are small here, and small ones are read as a whole.
    plans.statements = [each for each in plans.statements if TABLE in each[0]]
    plans.check()
    assert Delivery.objects.get(pk=rows[6].pk).due_at is None


def test_a_retry_of_the_head_takes_a_chain_and_no_more(held: Endpoint):
    Delivery.objects.exclude(due_at=None).update(due_at=timezone.now())
    with explained(analyze=True) as plans:
        assert len(claim(held).jobs) == CHAIN
    plans.check()
    assert plans.most_read(TABLE) <= PARKED_AT_ONCE


def test_the_tick_does_not_look_at_what_is_parked(held: Endpoint):
    with explained(analyze=True) as plans:
        assert tick.look(ALIAS).due == []
    plans.check()
    assert plans.most_read(TABLE) <= CHAIN


def test_a_blocked_strict_lane_is_asked_for_others_by_its_index(held: Endpoint):
    Endpoint.objects.update(ordering="fifo")
    owned(held, "any", 3)
    assert len(claim(held).units) == 1
    owned(held, "any", 3)
    with explained(analyze=True) as plans:
        assert not claim(held).jobs
    plans.check()
    assert plans.most_read(TABLE) <= PARKED_AT_ONCE
