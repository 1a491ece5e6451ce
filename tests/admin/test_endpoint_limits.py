"""Order, rate and policy in the forms of endpoints."""

import json
from typing import Any

import pytest
from django.test import Client

from tests.admin import rows
from tests.admin.pages import fields_of, page_url
from webhooks_app.models import Endpoint, EndpointState

pytestmark = pytest.mark.django_db
ADD = "/admin/webhooks_app/endpoint/add/"
NEW = {"url": "https://new.customer.com/in", "events": "*", "tenant_id": "birch"}


@pytest.fixture(autouse=True)
def own_policies(settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "POLICIES": {"patient": {"base": "strict"}}}


def form(client: Client, url: str, /, **changes: Any) -> dict[str, Any]:
    """Return what the browser would send from a page, with some fields changed."""
    return fields_of(client.get(url).content.decode(), **changes)


@pytest.mark.parametrize(
    ("given", "ordering", "in_flight"),
    [
        ({}, "none", 100),
        ({"policy": "quick"}, "fifo", 1),
        ({"policy": "patient", "ordering": "subject", "max_in_flight": "9"}, "subject", 9),
        ({"ordering": "fifo"}, "fifo", 1),
    ],
)
def test_what_staff_leave_empty_the_policy_says(
    boss: Client, given: dict[str, str], ordering: str, in_flight: int
) -> None:
    boss.post(ADD, form(boss, ADD, **NEW, **given))
    [made] = Endpoint.objects.all()
    assert (made.ordering, made.max_in_flight, made.rate_limit) == (ordering, in_flight, None)
    assert made.policy == given.get("policy", "standard")


def test_a_rate_is_given_as_json(boss: Client) -> None:
    boss.post(ADD, form(boss, ADD, **NEW, rate_limit='{"per_second": 5}'))
    [made] = Endpoint.objects.all()
    assert made.rate_limit == {"per_second": 5, "burst": 5.0}
    url = page_url("endpoint", made.pk)
    boss.post(url, form(boss, url, rate_limit=""))
    made.refresh_from_db()
    assert made.rate_limit is None


@pytest.mark.once
@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"rate_limit": '{"per_second": 0}'}, "rate_limit", "per_second: must be from"),
        ({"rate_limit": '{"per_second": NaN}'}, "rate_limit", "per_second: NaN"),
        ({"rate_limit": "5"}, "rate_limit", "must be"),
        ({"ordering": "fifo", "max_in_flight": "2"}, "max_in_flight", "must be 1"),
        ({"ordering": "random"}, "ordering", "not one of the available choices"),
        ({"policy": "hopeful"}, "policy", "not one of the available choices"),
        ({"policy_overrides": '{"breaker": {"failures": 0}}'}, "policy_overrides", "breaker/failures: must"),
    ],
)
def test_a_refused_value_is_told_at_its_field(
    boss: Client, changes: dict[str, str], field: str, message: str
) -> None:
    answer = boss.post(ADD, form(boss, ADD, **NEW, **changes))
    [(named, [told])] = answer.context["adminform"].form.errors.items()
    assert named == field
    assert message in told


def test_they_are_changed_one_by_one(boss: Client) -> None:
    endpoint = rows.endpoint(max_in_flight=1)
    url = page_url("endpoint", endpoint.pk)
    boss.post(url, form(boss, url, ordering="fifo"))
    boss.post(url, form(boss, url, policy="patient"))
    boss.post(url, form(boss, url, rate_limit=json.dumps({"per_second": 2, "burst": 3})))
    endpoint.refresh_from_db()
    assert (endpoint.ordering, endpoint.policy, endpoint.max_in_flight) == ("fifo", "patient", 1)
    assert endpoint.rate_limit == {"per_second": 2, "burst": 3}


def test_a_policy_that_is_gone_stays_until_somebody_chooses(boss: Client) -> None:
    endpoint = rows.endpoint()
    Endpoint.objects.update(policy="vanished")
    url = page_url("endpoint", endpoint.pk)
    boss.post(url, form(boss, url, description="x"))
    endpoint.refresh_from_db()
    assert (endpoint.description, endpoint.policy) == ("x", "vanished")
    boss.post(url, form(boss, url, policy="strict"))
    endpoint.refresh_from_db()
    assert endpoint.policy == "strict"


def test_an_endpoint_that_has_to_prove_its_url_cannot_be_enabled_by_hand(boss: Client) -> None:
    endpoint = rows.endpoint()
    EndpointState.objects.update(enabled=False, disabled_reason="url_changed")
    url = page_url("endpoint", endpoint.pk)
    answer = boss.post(url, form(boss, url, enabled="on"))
    assert "send a test" in str(answer.context["adminform"].form.errors["enabled"])
    sent = {"action": "enable_selected", "_selected_action": [endpoint.pk]}
    answer = boss.post("/admin/webhooks_app/endpoint/", sent, follow=True)
    assert "send a test" in answer.content.decode()
    assert not EndpointState.objects.get().enabled
