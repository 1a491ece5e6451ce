"""Status and health of an endpoint, from its rows."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import leased, make_delivery, make_endpoint
from webhooks_app.models import Endpoint, EndpointState
from webhooks_app.ops.health import Breaker, Facts, facts, health
from webhooks_app.ops.status import LastError, Status, status

pytestmark = pytest.mark.django_db

NOW = timezone.now()
SOON, BEFORE = NOW + timedelta(minutes=1), NOW - timedelta(minutes=1)
ALIAS = "default"


def known(endpoint: Endpoint | None = None, **values: Any) -> Endpoint:
    """An endpoint with its state as the path has left it."""
    row = endpoint or make_endpoint()
    EndpointState.objects.filter(pk=row.pk).update(**values)
    return Endpoint.objects.select_related("state").get(pk=row.pk)


def told(**values: Any) -> Status:
    return status(ALIAS, known(**values), NOW)


def seen(**values: Any) -> Facts:
    return facts(known(**values), NOW)


@pytest.mark.parametrize(
    ("owner", "until", "shown"),
    [("n-1", SOON, "n-1"), ("n-1", BEFORE, None), ("n-1", None, None), ("", SOON, None)],
)
def test_the_owner_is_told_while_the_claim_lasts(owner, until, shown):
    assert told(owner=owner, owner_until=until).owner == shown


def test_the_owner_is_told_while_requests_are_under_way():
    row = known(owner="n-1", owner_until=BEFORE)
    make_delivery(row, **leased(SOON))
    found = status(ALIAS, row, NOW)
    assert (found.owner, found.delivering) == ("n-1", True)


def test_counts_and_last_moments():
    found = told(
        delivered=5,
        retried=4,
        failed=3,
        dead_lettered=2,
        last_success_at=BEFORE,
        last_failure_at=NOW,
        last_error="timeout",
    )
    assert (found.delivered, found.retried, found.failed, found.dead_lettered) == (5, 4, 3, 2)
    assert (found.last_delivery_at, found.last_error) == (BEFORE, LastError(NOW, "timeout"))


def test_one_that_has_done_nothing():
    found = told()
    assert (found.delivering, found.owner, found.last_delivery_at, found.last_error) == (
        False,
        None,
        None,
        None,
    )
    assert found.lag.deliveries == 0


def test_a_closed_breaker_says_nothing_of_its_past():
    assert seen().breaker == Breaker("closed", None, None, None, 0)
    left = seen(breaker="closed", breaker_at=BEFORE, breaker_error="x", probe_at=SOON, breaker_successes=1)
    assert left.breaker == Breaker("closed", BEFORE, None, None, 0)


@pytest.mark.parametrize("state", ["open", "half_open"])
def test_a_breaker_that_is_not_closed_says_why_and_how_it_goes_on(state):
    found = seen(
        breaker=state, breaker_at=BEFORE, breaker_error="timeout", probe_at=SOON, breaker_successes=1
    )
    assert found.breaker == Breaker(state, BEFORE, "timeout", SOON, 1)


@pytest.mark.parametrize(
    ("policy", "failures", "since", "expected"),
    [
        ({"policy": "standard"}, 0, None, 0.0),
        ({"policy": "standard"}, 50, timedelta(days=2), 0.5),
        ({"policy": "standard"}, 1000, timedelta(hours=6), 0.25),
        ({"policy": "standard"}, 1000, timedelta(days=3), 1.0),
        ({"policy": "strict"}, 9, timedelta(hours=72), 0.6),
        ({"policy": "strict", "policy_overrides": {"auto_disable": False}}, 9, timedelta(hours=72), None),
        ({"policy": "exponential"}, 1000, timedelta(days=30), None),
        ({"policy": "quick"}, 1000, timedelta(days=30), None),
    ],
)
def test_how_near_the_end_is(policy, failures, since, expected):
    start = None if since is None else NOW - since
    last = None if since is None else NOW
    row = known(
        make_endpoint(**policy),
        consecutive_failures=failures,
        first_failure_at=start,
        last_failure_at=last,
        failing_from=start,
    )
    assert facts(row, NOW).disable_progress == (None if expected is None else pytest.approx(expected))


def test_a_hold_that_is_over_is_none():
    assert seen(hold_until=SOON).hold_until == SOON
    assert seen(hold_until=BEFORE).hold_until is None


def test_switches_and_warnings():
    found = seen(
        enabled=False,
        disabled_reason="failing",
        disabled_at=BEFORE,
        paused_at=BEFORE,
        health_warning="redirect",
    )
    assert (found.enabled, found.disabled_reason, found.disabled_at) == (False, "failing", BEFORE)
    assert (found.paused, found.health_warning, found.warnings) == (True, "redirect", 0)
    assert seen().health_warning is None


def test_health_is_the_facts_and_more():
    row = known(latency_ms=40)
    make_delivery(row, due_at=BEFORE)
    found = health(ALIAS, row, NOW)
    assert (found.latency_ms, found.backlog_seconds, found.sample.attempts) == (40, 60.0, 0)


def test_what_they_cost(django_assert_num_queries):
    row = known()
    with django_assert_num_queries(0):
        facts(row, NOW)
    with django_assert_num_queries(2):
        health(ALIAS, row, NOW)
    with django_assert_num_queries(3):
        status(ALIAS, row, NOW)
