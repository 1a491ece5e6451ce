"""How much bulk work a lease takes, whose is left to the rounds, and who must not be asked again at once."""

import pytest

from webhooks_app.models import Delivery, Endpoint, EndpointState
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.lease import lease
from webhooks_app.pipeline.work import Lease

from .breakers import opened
from .driving import ALIAS, claim, keys_of, waiting
from .factories import EndpointFactory

pytestmark = pytest.mark.django_db

LIVE, BULK = Delivery.Priority.LIVE, Delivery.Priority.BULK


def due(*, live: int = 0, bulk: int = 0, **values: object) -> Endpoint:
    endpoint = EndpointFactory(state__window=100, **values)
    waiting(endpoint, live)
    rows = waiting(endpoint, bulk)
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(priority=BULK)
    return endpoint


def take(*endpoints: Endpoint, bulk: int, senders: int = 100, cautious: int = 100) -> Lease:
    return lease(ALIAS, keys_of(endpoints), Room(senders, cautious, bulk=bulk))


def taken(held: Lease, priority: int) -> int:
    return sum(job.priority == priority for job in held.jobs)


def test_bulk_work_beyond_the_allowance_rests_and_live_work_has_its_places():
    endpoint = due(live=60, bulk=60)
    held = take(endpoint, bulk=0)
    assert (taken(held, LIVE), taken(held, BULK)) == (50, 0)
    assert held.resting == {endpoint.pk}


def test_the_allowance_is_for_all_endpoints_together():
    endpoints = [due(bulk=8) for _ in range(3)]
    held = take(*endpoints, bulk=10)
    assert taken(held, BULK) == 10
    assert held.resting
    assert not take(*endpoints, bulk=100).resting
    assert not claim(*endpoints).jobs


def test_who_has_no_more_bulk_work_does_not_rest():
    endpoint = due(live=1, bulk=5)
    held = take(endpoint, bulk=5)
    assert (taken(held, LIVE), taken(held, BULK)) == (1, 5)
    assert not held.resting


def test_without_a_sender_it_is_looked_at_later_and_not_at_once():
    """Whoever rests is leased for again as soon as bulk work may go: in vain, and without an end."""
    endpoint = due(bulk=20)
    EndpointState.objects.update(window=5)
    held = take(endpoint, bulk=2, cautious=0)
    assert (held.jobs, held.resting, held.more) == ((), frozenset(), frozenset())
    assert endpoint.pk in held.later


def test_without_a_token_it_is_looked_at_later_and_not_at_once():
    endpoint = due(bulk=20, rate_limit={"per_second": 0.1, "burst": 2})
    held = take(endpoint, bulk=10)
    assert (taken(held, BULK), held.resting, held.more) == (2, frozenset(), frozenset())
    assert endpoint.pk in held.later


def test_a_probe_leaves_whatever_it_is():
    endpoint = opened("exponential")
    Delivery.objects.filter(pk__in=[row.pk for row in waiting(endpoint, 3)]).update(priority=BULK)
    held = take(endpoint, bulk=0)
    assert [job.trigger for job in held.jobs] == ["probe"]
    assert not held.resting


@pytest.mark.parametrize(("live", "bulk", "said"), [(1, 0, True), (1, 5, True), (0, 5, False)])
def test_live_work_is_told_from_bulk_work(live: int, bulk: int, said: bool):
    assert claim(due(live=live, bulk=bulk)).is_live is said


def test_a_ping_is_no_live_work():
    held = claim(opened("exponential"))
    assert [job.is_ping for job in held.jobs] == [True]
    assert not held.is_live
