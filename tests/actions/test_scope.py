"""Scope: what each kind of actor sees; everything else gives the same answer as nothing."""

from datetime import timedelta

import pytest

from tests.actions.builders import (
    OPERATOR,
    make_attempt,
    make_delivery,
    make_endpoint,
    make_event,
    partner,
    tenant,
)
from webhooks_app.actions import scope
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.core.ids import delivery_id
from webhooks_app.exceptions import NotFound
from webhooks_app.models import Partner, Tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def owners():
    """The partner umbrella with the tenant ours; the tenant acme stands alone."""
    Tenant.objects.create(id="ours", partner=Partner.objects.create(id="umbrella"))
    Tenant.objects.create(id="acme")
    return {
        "acme": make_endpoint(),
        "acme test": make_endpoint(environment="test"),
        "ours": make_endpoint(tenant_id="ours"),
        "umbrella": make_endpoint(partner_id="umbrella"),
        "platform": make_endpoint(tenant_id=None),
    }


SEEN = [
    (tenant(), {"acme", "acme test"}),
    (tenant(environment="live"), {"acme"}),
    (tenant(environment="test"), {"acme test"}),
    (tenant("ours"), {"ours"}),
    (tenant("umbrella"), set()),
    (partner(), {"umbrella", "ours"}),
    (partner("acme"), set()),
    (OPERATOR, {"acme", "acme test", "ours", "umbrella", "platform"}),
]


@pytest.mark.parametrize(("actor", "seen"), SEEN)
def test_endpoints_with_their_deliveries_attempts_and_audit(owners, actor, seen):
    for row in owners.values():
        make_attempt(make_delivery(row))
    keys = {owners[name].pk for name in seen}
    assert set(scope.visible_endpoints(actor).values_list("pk", flat=True)) == keys
    assert set(scope.visible_deliveries(actor).values_list("endpoint_id", flat=True)) == keys
    assert set(scope.visible_attempts(actor).values_list("endpoint_id", flat=True)) == keys
    audited = {row.public_id for name, row in owners.items() if name in seen or "acme" in seen & {name[:4]}}
    if actor.environment is None:
        assert set(scope.visible_audit(actor).values_list("target_id", flat=True)) == audited


@pytest.mark.parametrize(("actor", "seen"), SEEN)
def test_one_endpoint(owners, actor, seen):
    for name, row in owners.items():
        if name in seen:
            assert scope.get_endpoint(actor, row.public_id) == row
        else:
            with pytest.raises(NotFound) as caught:
                scope.get_endpoint(actor, row.public_id)
            assert caught.value.code == "webhook_not_found"


def test_missing_and_foreign_look_the_same():
    row = make_endpoint()
    answers = []
    for public_id in (row.public_id, "whk_" + "0" * 26, "nonsense", "", "whk_\x00", "\ud800"):
        with pytest.raises(NotFound) as caught:
            scope.get_endpoint(tenant("other"), public_id)
        answers.append((caught.value.code, str(caught.value)))
    assert len(set(answers)) == 1


def test_deleted_endpoints_take_their_deliveries_out_of_sight():
    row = make_endpoint()
    delivery = make_delivery(row)
    assert scope.get_delivery(tenant(), delivery.public_id) == delivery
    delete_endpoint(OPERATOR, row)
    with pytest.raises(NotFound):
        scope.get_delivery(tenant(), delivery.public_id)


def test_a_delivery_id_counts_with_its_time():
    delivery = make_delivery(make_endpoint())
    forged = delivery_id(delivery.pk, delivery.created_at + timedelta(seconds=1))
    for public_id in (forged, "dlv_nonsense", ""):
        with pytest.raises(NotFound) as caught:
            scope.get_delivery(OPERATOR, public_id)
        assert caught.value.code == "delivery_not_found"


def test_events_of_the_tenant_of_its_partner_and_all():
    mine = make_event()
    ours = make_event(tenant_id="ours", partner_id="umbrella")
    platform = make_event(tenant_id=None)
    test = make_event(environment="test")
    assert set(scope.visible_events(tenant())) == {mine, test}
    assert set(scope.visible_events(tenant(environment="live"))) == {mine}
    assert set(scope.visible_events(partner())) == {ours}
    assert set(scope.visible_events(OPERATOR)) == {mine, ours, platform, test}


def test_one_event():
    event = make_event()
    assert scope.get_event(tenant(), event.public_id) == event
    for actor, public_id in ((tenant("other"), event.public_id), (tenant(), "evt\x00"), (tenant(), "")):
        with pytest.raises(NotFound) as caught:
            scope.get_event(actor, public_id)
        assert caught.value.code == "event_not_found"


class Hosted:
    """A host's own tenancy: the partner is what stands before the dash."""

    def partner_of(self, tenant_id):
        return tenant_id.partition("-")[0] if "-" in tenant_id else None

    def is_suspended(self, tenant_id, partner_id):
        return False

    def retention_days(self, tenant_id):
        return None


def test_a_hosts_own_tenancy_decides_who_belongs_to_a_partner(network):
    network(TENANCY="tests.actions.test_scope.Hosted")
    ours, theirs = make_endpoint(tenant_id="umbrella-1"), make_endpoint(tenant_id="other-1")
    make_endpoint(tenant_id="alone")
    assert list(scope.visible_endpoints(partner())) == [ours]
    assert list(scope.visible_endpoints(partner("other"))) == [theirs]
    assert make_endpoint(tenant_id="umbrella-2") in scope.visible_endpoints(partner())
