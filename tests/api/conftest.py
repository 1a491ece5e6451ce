"""Keys of three scopes, and a host name that resolves without asking anybody."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import Api
from webhooks_app.actions.actor import PERMISSIONS, operator
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.models import Partner, Tenant

OPERATOR = operator("command", "tests")


@pytest.fixture(autouse=True)
def known_hosts(settings: Any) -> None:
    hosts = {"STATIC_HOSTS": {"*.hooks.test": ["127.0.0.1"]}, "ALLOW_NETWORKS": ["127.0.0.0/8"]}
    settings.WEBHOOKS = {**settings.WEBHOOKS, **hosts}


@pytest.fixture
def tenants(db: None) -> None:
    """Tenants a and b of the partner p; tenant c of the partner q; d of none."""
    p, q = Partner.objects.create(id="p"), Partner.objects.create(id="q")
    Tenant.objects.create(id="a", partner=p)
    Tenant.objects.create(id="b", partner=p)
    Tenant.objects.create(id="c", partner=q)
    Tenant.objects.create(id="d")


@pytest.fixture
def api(tenants: None) -> Callable[..., Api]:
    """Return a maker of clients: `api("tenant:a")`, `api("platform", permissions=[...])`."""

    def make(scope: str = "tenant:a", *, permissions: Any = PERMISSIONS, environment: str = "live") -> Api:
        kind, _, scope_id = scope.partition(":")
        made = create_api_key(
            OPERATOR,
            scope=kind,
            scope_id=scope_id or None,
            permissions=permissions,
            environment=environment,
        )
        return Api(made.key)

    return make


@pytest.fixture
def mine(api: Callable[..., Api]) -> Api:
    """A client with every permission for tenant a."""
    return api()
