"""What docs/howto/own-users.md shows works as it is printed there."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

import webhooks_app
from tests.api import rows
from tests.api.client import Api
from webhooks_app.actions.tenancy import partner_of
from webhooks_app.models import AuditEntry
from webhooks_app.pipeline import tenancy
from webhooks_app.pipeline.retention import days_of

pytestmark = pytest.mark.django_db

PAGE = Path(webhooks_app.__file__).parent.parent / "docs" / "howto" / "own-users.md"
CODE = re.compile(r"^```python\n(# yourproject/webhooks\.py\n.*?)^```", re.MULTILINE | re.DOTALL)
COMPANIES = {
    "1": SimpleNamespace(reseller_id="big", is_blocked=False, days=7),
    "2": SimpleNamespace(reseller_id=None, is_blocked=True, days=None),
    "3": SimpleNamespace(reseller_id="blocked", is_blocked=False, days=None),
}
RESELLERS = {"big": SimpleNamespace(is_blocked=False), "blocked": SimpleNamespace(is_blocked=True)}
BODY = {"url": "https://x.hooks.test/", "events": ["order.*"]}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[None]:
    """The code of the page, as the module that it says it is."""
    companies, webhooks = ModuleType("yourproject.companies"), ModuleType("yourproject.webhooks")
    companies.company_of, companies.reseller_of = COMPANIES.get, RESELLERS.get  # type: ignore[attr-defined]
    for module in (ModuleType("yourproject"), companies, webhooks):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    blocks = CODE.findall(PAGE.read_text())
    assert len(blocks) == 2
    for block in blocks:
        exec(block, webhooks.__dict__)
    tenancy._instance.cache_clear()
    paths = {"ACTOR_RESOLVER": "yourproject.webhooks.actor_of", "TENANCY": "yourproject.webhooks.Tenancy"}
    settings.WEBHOOKS = {**settings.WEBHOOKS, **paths}
    yield
    tenancy._instance.cache_clear()


def member(*groups: str) -> Client:
    user = User.objects.create_user(f"user{User.objects.count()}")
    user.groups.set([Group.objects.get_or_create(name=name)[0] for name in groups])
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def test_members_read_and_admins_manage_what_is_their_companys(host: None) -> None:
    admin, reader, other = member("company:1", "admins"), member("company:1"), member("company:4")
    made = Api(client=admin).post("/webhooks", BODY)
    assert (made.status_code, made.json()["tenant_id"]) == (201, "1")
    entry = AuditEntry.objects.get(action="webhook.registered")
    assert (entry.actor_kind, entry.actor_id) == ("user", str(admin.session["_auth_user_id"]))
    assert [each["id"] for each in Api(client=reader).get("/webhooks").json()["data"]] == [made.json()["id"]]
    assert Api(client=reader).post("/webhooks", BODY).status_code == 403
    assert Api(client=other).get(f"/webhooks/{made.json()['id']}").status_code == 404


def test_who_has_no_company_or_two_is_nobody(host: None) -> None:
    for client in (Client(), member(), member("company:1", "company:2")):
        assert Api(client=client).get("/webhooks").status_code == 401


def test_keys_and_staff_still_have_their_ways_in(host: None, api: Any, admin_client: Client) -> None:
    key = api("tenant:9")
    key.client = member("company:1")
    rows.endpoint("1")
    assert key.get("/webhooks").json()["data"] == []
    assert len(Api(client=admin_client).get("/webhooks").json()["data"]) == 1


def test_the_tenancy_answers_what_is_asked(host: None) -> None:
    assert [partner_of("default", each) for each in ("1", "2", "nobody")] == ["big", None, None]
    assert [days_of("1"), days_of("2"), days_of("nobody"), days_of(None)] == [7, 30, 30, 30]
    asked = [("1", None), ("2", None), ("3", None), (None, "big"), (None, "blocked"), (None, None)]
    assert [tenancy.is_suspended(*each) for each in asked] == [False, True, True, False, True, False]
    assert tenancy.is_suspended("nobody", None) is False
