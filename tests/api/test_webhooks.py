"""Webhooks: create, read, change, delete, and what their answers show."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api import rows
from tests.api.client import ROOT, Api, errors
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret

pytestmark = pytest.mark.django_db

URL = "https://x.hooks.test/in?token=S3CRET-7"
BODY = {"url": URL, "events": ["order.*", "user.created"]}
HEADERS = [{"name": "X-Plain", "value": "seen"}, {"name": "X-Key", "value": "hidden-7", "secret": True}]


def test_create_with_little(mine: Api) -> None:
    response = mine.post("/webhooks", BODY)
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    made = response.json()
    assert response["Location"] == f"{ROOT}/webhooks/{made['id']}"
    assert made.pop("secret").startswith("whsec_")
    assert made.pop("same_url") == []
    assert mine.get(f"/webhooks/{made['id']}").json() == made
    assert made.pop("id").startswith("whk_")
    assert made.pop("created_at") == made.pop("updated_at")
    assert made == {
        "scope": "tenant",
        "tenant_id": "a",
        "partner_id": None,
        "url": URL,
        "method": "POST",
        "events": ["order.*", "user.created"],
        "identity_ids": None,
        "description": "",
        "policy": "standard",
        "policy_overrides": {},
        "headers": [],
        "max_in_flight": 100,
        "ordering": "none",
        "rate_limit": None,
        "environment": "live",
        "enabled": True,
        "disabled_reason": None,
        "paused": False,
        "breaker": "closed",
        "health_warning": None,
    }


def test_create_with_everything(mine: Api) -> None:
    fields = {
        "identity_ids": ["u1"],
        "description": "mine",
        "policy": "standard",
        "policy_overrides": {"waits": [1, 2.5], "jitter": 0.2, "reply_bytes": 10},
        "method": "PUT",
        "max_in_flight": 7,
        "environment": "live",
        "tenant_id": "a",
    }
    secret = "whsec_" + "A" * 42 + "8="
    made = mine.post("/webhooks", {**BODY, **fields, "secret": f" {secret}\n", "headers": HEADERS}).json()
    assert {name: made[name] for name in fields} == fields
    assert made["secret"] == secret
    assert made["headers"] == [
        {"name": "X-Plain", "value": "seen", "secret": False},
        {"name": "X-Key", "secret": True},
    ]


def test_an_empty_list_of_events_is_nothing_and_not_everything(mine: Api) -> None:
    assert mine.post("/webhooks", {**BODY, "events": []}).json()["events"] == []
    assert errors(mine.post("/webhooks", {"url": URL})) == {"events": "This field is required."}


def test_the_same_url_twice_is_told(mine: Api) -> None:
    first = mine.post("/webhooks", BODY).json()["id"]
    again = {**BODY, "url": URL.replace("x.hooks.test", "X.hooks.TEST:443")}
    assert mine.post("/webhooks", again).json()["same_url"] == [first]


def test_the_limit(mine: Api, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_ENDPOINTS": 1}
    assert mine.post("/webhooks", BODY).status_code == 201
    response = mine.post("/webhooks", BODY)
    assert (response.status_code, response.json()["code"]) == (422, "webhook_limit_reached")


@pytest.mark.parametrize(
    ("scope", "body", "owner"),
    [
        ("tenant:a", {}, ("tenant", "a", None)),
        ("partner:p", {}, ("partner", None, "p")),
        ("partner:p", {"partner_id": "p"}, ("partner", None, "p")),
        ("partner:p", {"tenant_id": "b"}, ("tenant", "b", None)),
        ("platform", {}, ("platform", None, None)),
        ("platform", {"tenant_id": "new"}, ("tenant", "new", None)),
        ("platform", {"partner_id": "q"}, ("partner", None, "q")),
    ],
)
def test_whose_it_becomes(api: Callable[..., Api], scope: str, body: Any, owner: Any) -> None:
    made = api(scope).post("/webhooks", {**BODY, **body}).json()
    assert (made["scope"], made["tenant_id"], made["partner_id"]) == owner


@pytest.mark.parametrize(
    ("scope", "body", "code"),
    [
        ("tenant:a", {"tenant_id": "b"}, "tenant_not_found"),
        ("tenant:a", {"partner_id": "p"}, "partner_not_found"),
        ("partner:p", {"tenant_id": "c"}, "tenant_not_found"),
        ("partner:p", {"tenant_id": "nobody"}, "tenant_not_found"),
        ("partner:p", {"partner_id": "q"}, "partner_not_found"),
    ],
)
def test_for_nobody_else(api: Callable[..., Api], scope: str, body: Any, code: str) -> None:
    response = api(scope).post("/webhooks", {**BODY, **body})
    assert (response.status_code, response.json()["code"]) == (404, code)
    assert not Endpoint.objects.exists()


def test_a_key_of_one_environment_sees_only_that(api: Callable[..., Api]) -> None:
    live, test = api(), api(environment="test")
    made = test.post("/webhooks", BODY).json()
    assert made["environment"] == "test"
    assert errors(live.post("/webhooks", {**BODY, "environment": "test"}))["environment"]
    assert live.get(f"/webhooks/{made['id']}").status_code == 404
    assert live.get("/webhooks").json()["data"] == []


def test_the_secret_is_shown_once(mine: Api) -> None:
    made = mine.post("/webhooks", {**BODY, "headers": HEADERS})
    path = f"/webhooks/{made.json()['id']}"
    rotated = mine.post(f"{path}/rotate-secret", {})
    secrets = [made.json()["secret"], rotated.json()["secret"], "hidden-7"]
    later = [mine.get("/webhooks"), mine.get(path), mine.patch(path, {"description": "x"})]
    later += [mine.post(f"{path}/pause"), mine.post(f"{path}/resume")]
    stored = str(list(AuditEntry.objects.values())) + str(list(EndpointSecret.objects.values()))
    stored += str(list(Endpoint.objects.values("headers")))
    for text in [*(answer.content.decode() for answer in later), stored]:
        assert not [secret for secret in secrets if secret.removeprefix("whsec_") in text]


def test_rotate(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}/rotate-secret"
    response = mine.post(path)
    assert response["Cache-Control"] == "no-store"
    assert response.json()["previous_expires_at"].endswith("Z")
    own = "whsec_" + "A" * 42 + "8="
    body = mine.post(path, {"overlap_hours": 0, "secret": own}).json()
    assert (body["secret"], body["previous_expires_at"]) == (own, None)


def test_rotate_too_often(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}/rotate-secret"
    codes = [mine.post(path).status_code for _ in range(6)]
    assert codes[:4] == [200] * 4
    assert codes[-1] == 409


def test_change(mine: Api) -> None:
    endpoint = rows.endpoint(identity_ids=["u1"], headers=HEADERS)
    path = f"/webhooks/{endpoint.public_id}"
    changes = {
        "url": "https://y.hooks.test/",
        "events": [],
        "identity_ids": None,
        "description": None,
        "policy_overrides": {"waits": []},
        "method": "PATCH",
        "headers": [{"name": "X-Key", "secret": True}],
        "max_in_flight": 1,
        "enabled": False,
    }
    changed = mine.patch(path, changes).json()
    shown = {**changes, "description": "", "disabled_reason": "manual"}
    assert {name: changed[name] for name in shown} == shown
    assert mine.get(path).json() == changed


def test_a_change_touches_nothing_else(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint(description='kept').public_id}"
    before = mine.get(path).json()
    after = mine.patch(path, {"max_in_flight": 3}).json()
    assert after.pop("updated_at") > before.pop("updated_at")
    assert after == {**before, "max_in_flight": 3}


def test_enable_and_disable(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}"
    off = mine.patch(path, {"enabled": False}).json()
    assert (off["enabled"], off["disabled_reason"]) == (False, "manual")
    on = mine.patch(path, {"enabled": True}).json()
    assert (on["enabled"], on["disabled_reason"]) == (True, None)


@pytest.mark.parametrize("body", [{}, {"retarget_pending": True}, None])
def test_a_change_of_nothing(mine: Api, body: Any) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}"
    assert errors(mine.patch(path, body)) == {"": "Name at least one field to change."}


@pytest.mark.parametrize(
    ("name", "hint"),
    [("tenant_id", "Fixed"), ("environment", "Fixed"), ("secret", "rotate"), ("paused", "pause")],
)
def test_what_a_change_cannot_do_says_what_can(mine: Api, name: str, hint: str) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}"
    assert hint in errors(mine.patch(path, {name: "a"}))[name]


def test_a_new_url_waits_for_open_deliveries(mine: Api) -> None:
    endpoint = rows.endpoint()
    rows.delivery(endpoint)
    path, url = f"/webhooks/{endpoint.public_id}", "https://y.hooks.test/"
    refused = mine.patch(path, {"url": url})
    assert (refused.status_code, refused.json()["code"]) == (409, "deliveries_pending")
    assert "retarget_pending" in refused.json()["fix"]
    assert mine.patch(path, {"url": url, "retarget_pending": True}).json()["url"] == url


@pytest.mark.parametrize(
    "url", ["http://x.hooks.test/", "https://10.0.0.1/", "https://u:p@x.hooks.test/", "x"]
)
def test_a_url_that_must_not_be_called(mine: Api, url: str) -> None:
    response = mine.post("/webhooks", {**BODY, "url": url})
    assert set(errors(response)) == {"url"}
    assert "10.0.0.1" not in response.content.decode()


def test_every_fault_in_one_answer(mine: Api) -> None:
    body = {"url": "x", "events": ["no spaces"], "headers": [{"name": "Host", "value": "x"}]}
    assert set(errors(mine.post("/webhooks", body))) == {"url", "events/0", "headers/0/name"}


def test_pause_and_resume(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}"
    assert mine.post(f"{path}/pause").json()["paused"] is True
    assert mine.post(f"{path}/pause", {}).json()["paused"] is True
    assert mine.get(path).json()["paused"] is True
    assert mine.post(f"{path}/resume").json()["paused"] is False


def test_delete(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint().public_id}"
    response = mine.delete(path)
    assert (response.status_code, response.content) == (204, b"")
    assert mine.get(path).status_code == mine.delete(path).status_code == 404
    assert mine.get("/webhooks").json() == {"data": [], "next_cursor": None}


def test_the_url_may_be_longer_than_the_column_only_in_an_error(mine: Api) -> None:
    response = mine.post("/webhooks", {**BODY, "url": "https://x.hooks.test/" + "r" * 9000})
    assert "2048" in errors(response)["url"]


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ([{"name": "X-A", "value": "a\r\nX-Injected: 1"}], "headers/0/value"),
        ([{"name": "X-A", "value": "a\n b"}], "headers/0/value"),
        ([{"name": "X Y", "value": "a"}], "headers/0/name"),
        ([{"name": "X-A", "value": 5}], "headers/0/value"),
        ([{"name": "X-A", "value": "a"}, {"name": "x-a", "value": "b"}], "headers/1/name"),
        ([{"name": f"X-{n}", "value": "a"} for n in range(200)], "headers"),
        ([{"name": "X-A"}], "headers/0/value"),
    ],
)
def test_headers_that_cannot_be_sent(mine: Api, headers: Any, path: str) -> None:
    assert list(errors(mine.post("/webhooks", {**BODY, "headers": headers}))) == [path]
