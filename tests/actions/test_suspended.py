"""Who is suspended gets not even what people send by hand."""

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint
from webhooks_app.actions import test_send as sending
from webhooks_app.actions.tenancy import check_not_suspended
from webhooks_app.exceptions import Conflict
from webhooks_app.models import Attempt, Endpoint, Partner, Tenant

pytestmark = pytest.mark.django_db

ALIAS = "default"


class Host:
    """A host's own tenancy, which holds the tenant acme and the partner umbrella."""

    def partner_of(self, tenant_id):
        return None

    def is_suspended(self, tenant_id, partner_id):
        return tenant_id == "acme" or partner_id == "umbrella"

    def retention_days(self, tenant_id):
        return None


@pytest.fixture
def owners() -> dict[str, Endpoint]:
    """An endpoint of a tenant with a partner, of that partner, of another tenant and of the platform."""
    Tenant.objects.create(id="acme", partner=Partner.objects.create(id="umbrella"))
    return {
        "acme": make_endpoint(),
        "umbrella": make_endpoint(partner_id="umbrella"),
        "other": make_endpoint(tenant_id="other"),
        "platform": make_endpoint(tenant_id=None),
    }


def held(owners: dict[str, Endpoint]) -> list[str]:
    return [name for name, endpoint in owners.items() if refusal(endpoint) == "tenant_suspended"]


def refusal(endpoint: Endpoint) -> str | None:
    try:
        check_not_suspended(ALIAS, endpoint)
    except Conflict as refused:
        return refused.code
    return None


def test_the_tables_say_who_is_suspended(owners):
    assert held(owners) == []
    Tenant.objects.update(suspended_at=timezone.now())
    assert held(owners) == ["acme"]
    Partner.objects.update(suspended_at=timezone.now())
    assert held(owners) == ["acme", "umbrella"]
    Tenant.objects.update(suspended_at=None)
    assert held(owners) == ["acme", "umbrella"]
    Tenant.objects.update(partner=None)
    assert held(owners) == ["umbrella"]


def test_and_so_does_a_class_of_the_hosts_own(owners, network):
    network(TENANCY="tests.actions.test_suspended.Host")
    assert held(owners) == ["acme", "umbrella"]


def test_no_test_is_sent(endpoint, receiver):
    Tenant.objects.create(id="acme", suspended_at=timezone.now())
    with pytest.raises(Conflict) as caught:
        sending.test_send(OPERATOR, endpoint)
    assert caught.value.code == "tenant_suspended"
    assert (receiver.requests, Attempt.objects.count()) == ([], 0)
