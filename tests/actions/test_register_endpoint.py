"""Registering: what is stored, what is refused, whose it is, and the limit."""

import pytest

from tests.actions.builders import OPERATOR, URL, make_endpoint, partner, tenant, together
from webhooks_app.actions.actor import WEBHOOKS_READ, Actor
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.core.secrets import parse
from webhooks_app.destinations.sealing import open_header, open_secret
from webhooks_app.exceptions import (
    ConfigurationError,
    InvalidRequest,
    LimitReached,
    NotFound,
    PermissionDenied,
)
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret, Partner, Tenant

pytestmark = pytest.mark.django_db

GIVEN = "whsec_" + "QUJD" * 8


def test_the_new_endpoint_is_enabled_and_its_secret_sealed():
    made = register_endpoint(tenant(), url=URL, events=["order.*"], description="books")
    row = Endpoint.objects.get(public_id=made.endpoint.public_id)
    assert (row.tenant_id, row.partner_id, row.url, row.events) == ("acme", None, URL, ["order.*"])
    assert (row.state.enabled, row.state.window, row.environment, row.policy) == (True, 4, "live", "standard")
    secret = row.secrets.get()
    assert made.secret not in secret.sealed
    assert open_secret(row.public_id, 1, secret.sealed) == made.secret
    assert len(parse(made.secret)) == 32


def test_a_secret_that_is_brought_along_is_stored_in_its_one_spelling():
    made = register_endpoint(tenant(), url=URL, events=[], secret=f"  {GIVEN}\n")
    assert made.secret == GIVEN


def test_secret_headers_are_sealed_and_others_are_not():
    headers = [{"name": "X-Key", "value": "s3cr3t", "secret": True}, {"name": "X-Team", "value": "blue"}]
    row = register_endpoint(tenant(), url=URL, events=["*"], headers=headers).endpoint
    row.refresh_from_db()
    sealed = row.headers[0].pop("sealed")
    assert row.headers == [{"name": "X-Key", "secret": True}, {"name": "X-Team", "value": "blue"}]
    assert open_header(row.public_id, "x-key", sealed) == "s3cr3t"


def test_every_fault_is_named_at_once():
    with pytest.raises(InvalidRequest) as caught:
        register_endpoint(
            tenant(),
            url="https://127.0.0.1/",
            events=["*", "order.paid"],
            identity_ids=["a", "a"],
            description="x" * 501,
            policy="hopeful",
            secret="whsec_",
            method="GET",
            headers=[{"name": "Host", "value": "x"}],
            max_in_flight=0,
            environment="stage",
        )
    paths = {path for path, _ in caught.value.errors}
    assert paths == {
        "url",
        "events/0",
        "identity_ids",
        "description",
        "policy",
        "secret",
        "method",
        "headers/0/name",
        "max_in_flight",
        "environment",
    }
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"url": 7}, "url"),
        ({"url": "https://nowhere.else.invalid/"}, "url"),
        ({"url": "http://hooks.customer.com/in"}, "url"),
        ({"url": "https://hooks.customer.com:8443/in"}, "url"),
        ({"url": "https://hooks.private.com/in"}, "url"),
        ({"url": "https://hooks.customer.com/" + "x" * 9000}, "url"),
        ({"events": "order.paid"}, "events"),
        ({"events": None}, "events"),
        ({"identity_ids": ["a\x00"]}, "identity_ids/0"),
        ({"identity_ids": [7]}, "identity_ids/0"),
        ({"description": "\ud800"}, "description"),
        ({"policy_overrides": {"waits": [0.1]}}, "policy_overrides/waits/0"),
        ({"policy_overrides": {"speed": 1}}, "policy_overrides/speed"),
        ({"policy_overrides": []}, "policy_overrides"),
        ({"headers": [{"name": "X-A", "value": "a\r\nX-Injected: 1"}]}, "headers/0/value"),
        ({"headers": [{"name": "X-A", "secret": True}]}, "headers/0/value"),
        ({"headers": [{"name": f"X-{n}", "value": "a"} for n in range(200)]}, "headers"),
        ({"max_in_flight": True}, "max_in_flight"),
        ({"tenant_id": "acme", "partner_id": "umbrella"}, "partner_id"),
    ],
)
def test_a_refused_value_is_named(values, path):
    with pytest.raises(InvalidRequest) as caught:
        register_endpoint(OPERATOR, **{"url": URL, "events": ["*"], **values})
    assert [each for each, _ in caught.value.errors] == [path]


def test_the_refusal_of_an_address_names_the_setting_and_not_the_address():
    with pytest.raises(InvalidRequest) as caught:
        register_endpoint(tenant(), url="https://hooks.private.com/in", events=["*"])
    assert "ALLOW_NETWORKS" in str(caught.value)
    assert "10.0.0.1" not in str(caught.value)


def test_an_empty_list_and_no_list_of_identities_are_stored_as_given():
    assert make_endpoint(identity_ids=[]).identity_ids == []
    assert make_endpoint(identity_ids=None).identity_ids is None


def test_without_the_permission_nothing_happens():
    with pytest.raises(PermissionDenied):
        register_endpoint(tenant(permissions=frozenset({WEBHOOKS_READ})), url=URL, events=["*"])


@pytest.mark.parametrize(
    ("actor", "values", "owner"),
    [
        (tenant(), {}, ("acme", None)),
        (tenant(), {"tenant_id": "acme"}, ("acme", None)),
        (partner(), {}, (None, "umbrella")),
        (partner(), {"partner_id": "umbrella"}, (None, "umbrella")),
        (partner(), {"tenant_id": "ours"}, ("ours", None)),
        (OPERATOR, {}, (None, None)),
        (OPERATOR, {"tenant_id": "anybody"}, ("anybody", None)),
        (OPERATOR, {"partner_id": "anybody"}, (None, "anybody")),
    ],
)
def test_whose_the_endpoint_becomes(actor, values, owner):
    Tenant.objects.create(id="ours", partner=Partner.objects.create(id="umbrella"))
    made = register_endpoint(actor, url=URL, events=["*"], **values).endpoint
    assert (made.tenant_id, made.partner_id) == owner


@pytest.mark.parametrize(
    ("actor", "values", "code"),
    [
        (tenant(), {"tenant_id": "other"}, "tenant_not_found"),
        (tenant(), {"partner_id": "umbrella"}, "partner_not_found"),
        (partner(), {"tenant_id": "theirs"}, "tenant_not_found"),
        (partner(), {"tenant_id": "unknown"}, "tenant_not_found"),
        (partner(), {"partner_id": "other"}, "partner_not_found"),
    ],
)
def test_somebody_elses_tenants_and_partners_do_not_exist(actor, values, code):
    Tenant.objects.create(id="theirs", partner=Partner.objects.create(id="other"))
    with pytest.raises(NotFound) as caught:
        register_endpoint(actor, url=URL, events=["*"], **values)
    assert caught.value.code == code


def test_a_key_registers_in_its_own_environment():
    bound = tenant(environment="test")
    assert register_endpoint(bound, url=URL, events=["*"]).endpoint.environment == "test"
    with pytest.raises(InvalidRequest):
        register_endpoint(bound, url=URL, events=["*"], environment="live")


def test_a_scope_without_an_id_cannot_be_an_actor():
    with pytest.raises(ValueError, match="scope_id"):
        Actor("key", "key_1", scope="tenant", scope_id="")
    with pytest.raises(ValueError, match="scope_id"):
        Actor("key", "key_1", scope="platform", scope_id="acme")


def test_the_limit_counts_living_endpoints_of_one_owner(network):
    network(MAX_ENDPOINTS=2)
    first, _ = make_endpoint(), make_endpoint(environment="test")
    with pytest.raises(LimitReached) as caught:
        make_endpoint()
    assert caught.value.code == "webhook_limit_reached"
    make_endpoint(tenant_id="other")
    make_endpoint(partner_id="acme")
    make_endpoint(tenant_id=None)
    delete_endpoint(OPERATOR, first)
    make_endpoint()


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_two_at_once_cannot_both_take_the_last_place(network):
    network(MAX_ENDPOINTS=3)
    make_endpoint()
    results = together(*[make_endpoint] * 6)
    assert Endpoint.objects.count() == 3
    assert sum(isinstance(result, LimitReached) for result in results) == 4


def test_the_same_url_twice_is_allowed_and_told():
    """B037"""
    first = register_endpoint(tenant(), url=URL, events=["*"])
    again = register_endpoint(tenant(), url="https://HOOKS.customer.com:443/in", events=["*"])
    other = register_endpoint(tenant(), url="https://hooks.customer.com/other", events=["*"])
    elsewhere = register_endpoint(tenant("other"), url=URL, events=["*"])
    assert again.same_url == (first.endpoint.public_id,)
    assert first.same_url == other.same_url == elsewhere.same_url == ()


def test_the_audit_has_the_host_and_no_secret():
    made = register_endpoint(
        tenant(request_id="req_1"),
        url=URL + "/T0P?token=S3CRET",
        events=["*"],
        headers=[{"name": "X-Key", "value": "s3cr3t", "secret": True}],
    )
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_id, entry.tenant_id) == (
        "webhook.registered",
        made.endpoint.public_id,
        "acme",
    )
    assert (entry.actor_kind, entry.actor_id, entry.request_id) == ("key", "key_1", "req_1")
    assert entry.details["host"] == "hooks.customer.com"
    for secret in ("S3CRET", "T0P", "s3cr3t", made.secret):
        assert secret not in str(entry.details)


def test_the_secret_is_in_no_repr():
    made = register_endpoint(tenant(), url=URL, events=["*"])
    assert made.secret not in repr(made)


def test_without_a_master_key_nothing_is_stored(network):
    network(MASTER_KEYS=[])
    with pytest.raises(ConfigurationError):
        register_endpoint(tenant(), url=URL, events=["*"])
    assert not Endpoint.objects.exists()
    assert not EndpointSecret.objects.exists()
