"""Order, rate and policy of an endpoint: what is stored, what a policy fills in, what is refused."""

import math

import pytest

from tests.actions.builders import OPERATOR, URL, make_delivery, make_endpoint, tenant
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.exceptions import InvalidRequest
from webhooks_app.models import AuditEntry, Delivery, Endpoint

pytestmark = pytest.mark.django_db

OWN = {
    "POLICIES": {"patient": {"base": "standard", "default_ordering": "subject", "default_max_in_flight": 7}}
}


def refused(**values) -> list[tuple[str, str]]:
    """The faults of a request to register."""
    with pytest.raises(InvalidRequest) as caught:
        register_endpoint(OPERATOR, **{"url": URL, "events": ["*"], **values})
    return caught.value.errors


def paths(**values) -> list[str]:
    return [path for path, _ in refused(**values)]


@pytest.mark.parametrize(
    ("given", "ordering", "in_flight"),
    [
        ({}, "none", 100),
        ({"policy": "strict"}, "none", 100),
        ({"policy": "quick"}, "fifo", 1),
        ({"policy": "quick", "ordering": "none"}, "none", 1),
        ({"policy": "quick", "ordering": "none", "max_in_flight": 9}, "none", 9),
        ({"policy": "quick", "ordering": "subject"}, "subject", 1),
        ({"policy": "quick", "max_in_flight": 1}, "fifo", 1),
        ({"ordering": "fifo"}, "fifo", 1),
        ({"ordering": "fifo", "max_in_flight": 1}, "fifo", 1),
        ({"ordering": "subject"}, "subject", 100),
        ({"ordering": "subject", "max_in_flight": 4}, "subject", 4),
        ({"policy": "patient"}, "subject", 7),
        ({"policy": "patient", "ordering": "fifo"}, "fifo", 1),
    ],
)
def test_what_a_request_leaves_out_the_policy_says(network, given, ordering, in_flight):
    network(**OWN)
    row = make_endpoint(**given)
    row.refresh_from_db()
    assert (row.ordering, row.max_in_flight) == (ordering, in_flight)


@pytest.mark.parametrize(
    "given",
    [
        {"ordering": "fifo", "max_in_flight": 2},
        {"policy": "quick", "max_in_flight": 2},
    ],
)
def test_a_strict_order_has_one_request_in_flight(given):
    assert paths(**given) == ["max_in_flight"]


@pytest.mark.parametrize("value", ["FIFO", "random", "", 1, True, ["fifo"]])
def test_an_unknown_order(value):
    [(path, message)] = refused(ordering=value)
    assert path == "ordering"
    assert "none, fifo, subject" in message


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None),
        ({"per_second": 5, "burst": 10}, {"per_second": 5, "burst": 10}),
        ({"per_second": 0.25}, {"per_second": 0.25, "burst": 1.0}),
        ({"per_second": 40}, {"per_second": 40, "burst": 40.0}),
    ],
)
def test_a_rate_is_stored_whole(given, stored):
    row = make_endpoint(rate_limit=given)
    row.refresh_from_db()
    assert row.rate_limit == stored


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (5, "rate_limit"),
        ([], "rate_limit"),
        ({}, "rate_limit/per_second"),
        ({"burst": 5}, "rate_limit/per_second"),
        ({"per_second": 0}, "rate_limit/per_second"),
        ({"per_second": -1}, "rate_limit/per_second"),
        ({"per_second": math.nan}, "rate_limit/per_second"),
        ({"per_second": math.inf}, "rate_limit/per_second"),
        ({"per_second": 10**400}, "rate_limit/per_second"),
        ({"per_second": True}, "rate_limit/per_second"),
        ({"per_second": "5"}, "rate_limit/per_second"),
        ({"per_second": 5, "burst": 0}, "rate_limit/burst"),
        ({"per_second": 5, "burst": math.nan}, "rate_limit/burst"),
        ({"per_second": 5, "per_minute": 300}, "rate_limit/per_minute"),
    ],
)
def test_a_rate_that_is_none(value, path):
    assert paths(rate_limit=value) == [path]


@pytest.mark.parametrize("name", ["standard", "strict", "exponential", "quick", "patient"])
def test_presets_and_the_operators_own_policies_are_known(network, name):
    network(**OWN)
    assert make_endpoint(policy=name).policy == name


@pytest.mark.parametrize("name", ["hopeful", "Standard", 7, ["strict"]])
def test_an_unknown_policy_is_told_which_there_are(network, name):
    network(**OWN)
    [(path, message)] = refused(policy=name)
    assert path == "policy"
    assert "standard, strict, exponential, quick, patient" in message


@pytest.mark.parametrize(
    ("overrides", "path", "bound"),
    [
        ({"waits": [0.5]}, "policy_overrides/waits/0", "1"),
        ({"waits": [1, 0]}, "policy_overrides/waits/1", "1"),
        ({"waits": [5] * 6}, "policy_overrides/waits", "5"),
        ({"waits": [86_400, 86_401]}, "policy_overrides/waits", "172800"),
        ({"jitter": 0.6}, "policy_overrides/jitter", "0.5"),
        ({"total_timeout": 61}, "policy_overrides/total_timeout", "60"),
        ({"breaker": {"failures": 0}}, "policy_overrides/breaker/failures", "1"),
        ({"auto_disable": True}, "policy_overrides/auto_disable", "false"),
        ({"retried": [200]}, "policy_overrides/retried/0", "300"),
    ],
)
def test_overrides_keep_to_the_operators_bounds(network, overrides, path, bound):
    network(POLICY_BOUNDS={"max_attempts": 6, "max_window": 172_800})
    [(named, message)] = refused(policy="strict", policy_overrides=overrides)
    assert named == path
    assert bound in message


def test_overrides_are_stored_as_given():
    given = {"waits": [1, 2.5], "breaker": False, "auto_disable": {"span": 3600}}
    row = make_endpoint(policy="strict", policy_overrides=given)
    row.refresh_from_db()
    assert row.policy_overrides == given


def test_every_fault_is_named_at_once():
    given = {"ordering": "x", "rate_limit": 1, "policy": "x", "max_in_flight": 0}
    assert set(paths(**given)) == set(given)


def test_a_change_of_the_order_alone_may_not_leave_several_in_flight():
    row = make_endpoint()
    with pytest.raises(InvalidRequest) as caught:
        update_endpoint(tenant(), row, {"ordering": "fifo"})
    assert [path for path, _ in caught.value.errors] == ["max_in_flight"]
    changed = update_endpoint(tenant(), row, {"ordering": "fifo", "max_in_flight": 1})
    assert (changed.ordering, changed.max_in_flight) == ("fifo", 1)
    with pytest.raises(InvalidRequest):
        update_endpoint(tenant(), row, {"max_in_flight": 2})
    assert update_endpoint(tenant(), row, {"max_in_flight": 2, "ordering": "none"}).max_in_flight == 2


def test_an_order_that_does_not_fit_keeps_nobody_from_changing_something_else():
    row = make_endpoint()
    Endpoint.objects.update(ordering="fifo", max_in_flight=5)
    assert update_endpoint(tenant(), row, {"description": "new"}).description == "new"


def test_open_deliveries_keep_the_order_they_have():
    row = make_endpoint()
    make_delivery(row)
    make_delivery(row, lane="1:a", due_at=None, priority=3)
    before = list(Delivery.objects.order_by("pk").values())
    update_endpoint(tenant(), row, {"ordering": "fifo", "max_in_flight": 1})
    assert list(Delivery.objects.order_by("pk").values()) == before


def test_another_policy_brings_no_other_order():
    row = make_endpoint()
    changed = update_endpoint(tenant(), row, {"policy": "quick"})
    assert (changed.policy, changed.ordering, changed.max_in_flight) == ("quick", "none", 100)


def test_a_rate_comes_and_goes():
    row = make_endpoint()
    changed = update_endpoint(tenant(), row, {"rate_limit": {"per_second": 2}})
    assert changed.rate_limit == {"per_second": 2, "burst": 2.0}
    assert update_endpoint(tenant(), row, {"rate_limit": None}).rate_limit is None


def test_they_are_audited_with_their_values():
    update_endpoint(tenant(), make_endpoint(), {"ordering": "subject", "rate_limit": {"per_second": 2}})
    details = AuditEntry.objects.latest("id").details
    assert details == {
        "fields": ["ordering", "rate_limit"],
        "ordering": "subject",
        "rate_limit": {"per_second": 2, "burst": 2.0},
    }


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ({"policy": "strict"}, True),
        ({"policy_overrides": {"breaker": False}}, True),
        ({"rate_limit": {"per_second": 9}}, True),
        ({"max_in_flight": 200}, True),
        ({"ordering": "subject"}, False),
        ({"description": "new"}, False),
    ],
)
def test_whoever_waits_at_a_gate_is_looked_at_when_it_moves(
    rung, django_capture_on_commit_callbacks, change, wakes
):
    row = make_endpoint()
    with django_capture_on_commit_callbacks(execute=True):
        update_endpoint(tenant(), row, change)
    assert rung == ([row.pk] if wakes else [])
