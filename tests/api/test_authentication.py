"""Who may call: keys, staff, the host's own way in; everybody else gets 401."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.test import Client
from django.utils import timezone

from tests.api.client import Api
from tests.api.conftest import OPERATOR
from webhooks_app.actions.actor import Actor
from webhooks_app.actions.api_keys import create_api_key, revoke_api_key
from webhooks_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db


def resolve(request: HttpRequest) -> Actor | None:
    """A host's resolver: it believes a header."""
    tenant = request.META.get("HTTP_X_TENANT")
    permissions = frozenset({"webhooks:manage"})
    return Actor("host", "u1", "tenant", tenant, permissions=permissions) if tenant else None


BAD = {
    "a long id": lambda: Actor("user", "x" * 129, "tenant", "a"),
    "a number as id": lambda: Actor("user", 42, "tenant", "a"),  # type: ignore[arg-type]
    "no id": lambda: Actor("user", "", "tenant", "a"),
    "a NUL": lambda: Actor("user", "\x00", "tenant", "a"),
    "half a pair": lambda: Actor("user", "\ud800", "tenant", "a"),
    "a long kind": lambda: Actor("k" * 17, "42", "tenant", "a"),
    "no such scope": lambda: Actor("user", "42", "everybody", "a"),
    "a tenant without id": lambda: Actor("user", "42", "tenant"),
    "a tenant with a long id": lambda: Actor("user", "42", "tenant", "a" * 129),
    "a platform with id": lambda: Actor("user", "42", "platform", "a"),
    "no such environment": lambda: Actor("user", "42", "tenant", "a", environment="prod"),
    "a text of permissions": lambda: Actor("user", "42", "tenant", "a", permissions="webhooks:manage"),  # type: ignore[arg-type]
    "a number as permission": lambda: Actor("user", "42", "tenant", "a", permissions={1}),  # type: ignore[arg-type]
    "no actor at all": lambda: "42",
}
WRONG = {
    "a long id": "not 129 characters",
    "a number as id": "id must be a text of 1 to 128 characters, not a int",
    "no such scope": "scope must be one of platform, partner, tenant, not 'everybody'",
    "a tenant without id": "scope_id of a tenant or partner must be a text",
    "a platform with id": "scope_id must be None",
    "no such environment": "environment must be live, test or None",
    "a text of permissions": "permissions must be a set of names",
    "no actor at all": "returned a str; it must return a webhooks_app.Actor or None",
}


def resolve_badly(request: HttpRequest) -> Any:
    """A host's resolver that says what the header asks for."""
    return BAD[request.META["HTTP_X_FAULT"]]()


def refuse(request: HttpRequest) -> Any:
    """A host's resolver that turns everybody away."""
    raise PermissionDenied("not you")


@pytest.fixture
def resolver(settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "ACTOR_RESOLVER": f"{__name__}.resolve"}


def signed_in(*permissions: str, **fields: Any) -> Client:
    user = User.objects.create_user("ada", is_staff=True, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(user)
    return client


def csrf(client: Client) -> dict[str, str]:
    client.cookies["csrftoken"] = "a" * 32
    return {"HTTP_X_CSRFTOKEN": "a" * 32}


def test_without_credentials() -> None:
    response = Api().get("/webhooks")
    assert response.status_code == 401
    assert response.json()["code"] == "unauthenticated"
    assert response["WWW-Authenticate"] == 'Bearer realm="webhooks"'


@pytest.mark.parametrize("given", ["", "x", "key_", "\xe9", "a b", "x" * 5000, "\x00", "Bearer"])
def test_a_wrong_key(given: str) -> None:
    response = Api(given).get("/webhooks")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == 'Bearer realm="webhooks", error="invalid_token"'


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "", "Token abc"])
def test_other_schemes_are_nobody(given: str) -> None:
    assert Api().get("/webhooks", HTTP_AUTHORIZATION=given).status_code == 401


def test_wrong_revoked_and_expired_keys_look_alike() -> None:
    revoked = create_api_key(OPERATOR, scope="platform", permissions=["webhooks:read"])
    assert Api(revoked.key).get("/webhooks").status_code == 200
    revoke_api_key(OPERATOR, revoked.api_key.public_id)
    expired = create_api_key(OPERATOR, scope="platform", permissions=["webhooks:read"])
    ApiKey.objects.filter(pk=expired.api_key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    unknown = revoked.key[:-4] + "AAAA"
    bodies = [Api(key).get("/webhooks").json() for key in (revoked.key, expired.key, unknown)]
    assert all(body.pop("request_id") for body in bodies)
    assert bodies[0] == bodies[1] == bodies[2]


def test_the_scheme_is_read_in_any_case() -> None:
    made = create_api_key(OPERATOR, scope="platform", permissions=["webhooks:read"])
    assert Api().get("/webhooks", HTTP_AUTHORIZATION=f"bearer  {made.key} ").status_code == 200


def test_a_key_wins_over_a_session() -> None:
    client = signed_in(is_superuser=True)
    assert Api("wrong", client).get("/webhooks").status_code == 401


@pytest.mark.parametrize(
    ("granted", "needs", "call"),
    [
        ([], "webhooks:read", lambda api: api.get("/webhooks")),
        (["events:write"], "webhooks:read", lambda api: api.get("/events")),
        (["webhooks:read"], "webhooks:manage", lambda api: api.post("/webhooks", {})),
        (["webhooks:read"], "webhooks:manage", lambda api: api.delete("/webhooks/whk_x")),
        (["webhooks:manage"], "events:write", lambda api: api.post("/events", {})),
    ],
)
def test_a_missing_permission_is_named(
    api: Callable[..., Api], granted: list[str], needs: str, call: Callable[[Api], Any]
) -> None:
    response = call(api(permissions=granted))
    assert response.status_code == 403
    assert response.json()["code"] == "permission_denied"
    assert response.json()["details"] == {"required": [needs]}


def test_manage_includes_read(api: Callable[..., Api]) -> None:
    assert api(permissions=["webhooks:manage"]).get("/webhooks").status_code == 200


def test_staff_reads_with_djangos_permission() -> None:
    client = signed_in("view_endpoint")
    assert Api(client=client).get("/webhooks").status_code == 200
    assert Api(client=client).post("/webhooks", {}, **csrf(client)).status_code == 403


def test_staff_without_djangos_permissions_may_nothing() -> None:
    response = Api(client=signed_in()).get("/webhooks")
    assert response.json()["details"] == {"required": ["webhooks_app.view_endpoint"]}


def test_an_unsafe_method_needs_the_csrf_token() -> None:
    client = signed_in(is_superuser=True)
    body = {"url": "https://x.hooks.test/", "events": ["*"]}
    refused = Api(client=client).post("/webhooks", body)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    assert Api(client=client).post("/webhooks", body, **csrf(client)).status_code == 201
    entry = AuditEntry.objects.get(action="webhook.registered")
    assert (entry.actor_kind, entry.actor_id) == ("staff", str(User.objects.get().pk))


def test_a_session_without_staff_is_nobody() -> None:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_user("eve", is_superuser=True))
    assert Api(client=client).get("/webhooks").status_code == 401


def test_the_hosts_resolver_comes_first(resolver: None, api: Callable[..., Api]) -> None:
    body = {"url": "https://x.hooks.test/", "events": ["*"]}
    made = Api().post("/webhooks", body, HTTP_X_TENANT="b")
    assert made.json()["tenant_id"] == "b"
    assert AuditEntry.objects.get(action="webhook.registered").request_id == made["Request-Id"]
    assert api("tenant:a").get("/webhooks").json()["data"] == []
    assert Api().get("/webhooks").status_code == 401


def test_a_resolver_that_sees_a_session_cookie_is_held_to_csrf(resolver: None) -> None:
    client = signed_in()
    refused = Api(client=client).post("/webhooks", {}, HTTP_X_TENANT="b")
    assert refused.json()["code"] == "csrf_failed"
    assert Api(client=client).post("/webhooks", {}, HTTP_X_TENANT="b", **csrf(client)).status_code == 400


@pytest.mark.parametrize("fault", BAD)
def test_what_a_resolver_says_wrong_is_logged_and_a_problem_of_its_own(
    settings: Any, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "ACTOR_RESOLVER": f"{__name__}.resolve_badly"}
    body = {"url": "https://x.hooks.test/", "events": ["*"]}
    response = Api().post("/webhooks", body, HTTP_X_FAULT=fault)
    assert (response.status_code, response.json()["code"]) == (500, "misconfigured")
    [told] = [record.getMessage() for record in caplog.records if record.name == "webhooks_app.api"]
    assert told.startswith(f"request {response['Request-Id']} failed: ")
    assert f"{__name__}.resolve_badly" in told
    assert WRONG.get(fault, "must") in told
    assert "resolve" not in response.content.decode()


def test_a_resolver_that_is_not_there_is_a_problem_of_the_same_kind(settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "ACTOR_RESOLVER": "nowhere.resolve"}
    assert Api().get("/webhooks").json()["code"] == "misconfigured"


def test_a_resolver_may_turn_a_caller_away(settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "ACTOR_RESOLVER": f"{__name__}.refuse"}
    response = Api().get("/webhooks")
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")


def test_the_longest_id_that_an_actor_may_have_fits_everywhere(settings: Any) -> None:
    longest = Actor("k" * 16, "ü" * 128, "tenant", "ü" * 128, permissions={"webhooks:manage"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BAD, "none", lambda: longest)  # type: ignore[arg-type]
        settings.WEBHOOKS = {**settings.WEBHOOKS, "ACTOR_RESOLVER": f"{__name__}.resolve_badly"}
        body = {"url": "https://x.hooks.test/", "events": ["*"]}
        made = Api().post("/webhooks", body, HTTP_X_FAULT="none", HTTP_IDEMPOTENCY_KEY="k")
        since = {"since": "2026-11-01T00:00:00Z"}
        job = Api().post(f"/webhooks/{made.json()['id']}/recover", since, HTTP_X_FAULT="none")
    assert (made.status_code, job.status_code) == (201, 202)


def test_an_actor_has_no_scope_by_default() -> None:
    with pytest.raises(TypeError, match="scope"):
        Actor("user", "42")  # type: ignore[call-arg]


def test_the_request_id_is_in_the_audit(mine: Api) -> None:
    made = mine.post("/webhooks", {"url": "https://x.hooks.test/", "events": ["*"]})
    assert AuditEntry.objects.get(action="webhook.registered").request_id == made["Request-Id"]


@pytest.mark.parametrize("content_type", ["multipart/form-data", "multipart/form-data; boundary=x"])
def test_a_broken_form_in_a_session_is_the_callers_fault(content_type: str) -> None:
    client = signed_in(is_superuser=True)
    response = Api(client=client).post("/webhooks", b"--x", content_type=content_type)
    assert 400 <= response.status_code < 500
