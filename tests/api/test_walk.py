"""Every path that names something, with somebody else's and with nobody's id: one and the same answer."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.urls import URLPattern

from tests.api import rows
from tests.api.client import Api
from webhooks_app.api.urls import urlpatterns
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.django_db

MISSING = {
    "webhooks": [
        "whk_01JAAAAAAAAAAAAAAAAAAAAAAA",
        "whk_x",
        "%00",
        "x" * 300,
        "evt_1",
        "WHK_01J",
        "%ed%a0%80",
        "ä",
    ],
    "events": ["evt_01JAAAAAAAAAAAAAAAAAAAAAAA", "nope", "%00", "x" * 65, "%ed%a0%80", "ä", "a b"],
}
VALID_BODIES: dict[str, Any] = {
    "updateWebhook": {"enabled": False, "url": "https://evil.hooks.test/"},
    "rotateWebhookSecret": {"overlap_hours": 0},
    "replayWebhook": {"event_ids": ["evt_1"]},
}


def operations() -> Iterator[tuple[str, str, str]]:
    """Yield method, path and operation id of everything that takes an id."""
    for pattern in urlpatterns:
        if isinstance(pattern, URLPattern) and "<str:id>" in str(pattern.pattern):
            path = f"/{pattern.pattern}".removeprefix("/v1").replace("<str:id>", "{id}")
            for method, operation in pattern.callback.cls.operations.items():
                yield method, path, operation.id


WALK = list(operations())
STRANGERS = ["tenant:b", "tenant:c", "tenant:d", "tenant:nobody", "partner:q", "partner:nobody"]


def without_id(response: Any) -> bytes:
    body = response.json()
    del body["request_id"]
    return json.dumps(body).encode()


def test_the_walk_is_the_api() -> None:
    assert len(WALK) >= 10
    assert {method for method, _, _ in WALK} == {"GET", "POST", "PATCH", "DELETE"}
    assert set(VALID_BODIES) <= {operation for _, _, operation in WALK}


@pytest.mark.parametrize(("method", "path", "operation"), WALK, ids=[operation for _, _, operation in WALK])
def test_foreign_and_missing_are_one(api: Callable[..., Api], method: str, path: str, operation: str) -> None:
    endpoint = rows.endpoint("a")
    rows.attempt(endpoint, rows.delivery(endpoint))
    mine = api("tenant:a")
    event_id = mine.post("/events", {"type": "x.y", "data": {}}).json()["id"]
    noun = path.split("/")[1]
    foreign = {"webhooks": [endpoint.public_id], "events": [event_id, rows.event("a").public_id]}[noun]
    body = VALID_BODIES.get(operation, {}) if method in ("POST", "PATCH") else None
    strangers = [api(scope) for scope in STRANGERS] + [api("tenant:a", environment="test")]
    before = rows.snapshot()
    answers = {
        without_id(stranger.send(method, path.format(id=given), body))
        for stranger in strangers
        for given in foreign + MISSING[noun]
    }
    answers |= {without_id(mine.send(method, path.format(id=given), body)) for given in MISSING[noun]}
    answers |= {without_id(strangers[0].send(method, path.format(id=foreign[0]), {"wrong": 1}))}
    (answer,) = answers
    assert json.loads(answer)["code"] == {"webhooks": "webhook_not_found", "events": "event_not_found"}[noun]
    assert rows.snapshot() == before


@pytest.mark.parametrize(("method", "path", "operation"), WALK, ids=[operation for _, _, operation in WALK])
def test_a_deleted_webhook_is_missing(
    api: Callable[..., Api], method: str, path: str, operation: str
) -> None:
    if not path.startswith("/webhooks"):
        return
    mine, endpoint = api("tenant:a"), rows.endpoint("a")
    Endpoint.objects.filter(pk=endpoint.pk).update(deleted_at=rows.NOW)
    body = VALID_BODIES.get(operation, {}) if method in ("POST", "PATCH") else None
    deleted = without_id(mine.send(method, path.format(id=endpoint.public_id), body))
    assert deleted == without_id(mine.send(method, path.format(id="whk_x"), body))


@pytest.mark.parametrize(("method", "path", "operation"), WALK, ids=[operation for _, _, operation in WALK])
def test_a_partner_reaches_its_tenants(
    api: Callable[..., Api], method: str, path: str, operation: str
) -> None:
    if operation in ("testWebhook", "replayWebhook"):
        return
    ids = {"webhooks": rows.endpoint("a").public_id, "events": rows.event("a", partner_id="p").public_id}
    body = {"description": "x"} if method == "PATCH" else {} if method == "POST" else None
    response = api("partner:p").send(method, path.format(id=ids[path.split("/")[1]]), body)
    assert response.status_code in (200, 204)


def test_lists_show_strangers_nothing(api: Callable[..., Api]) -> None:
    rows.endpoint("a")
    rows.event("a", partner_id="p")
    for scope in STRANGERS:
        for path in ("/webhooks", "/events", "/events?tenant_id=a", "/webhooks?tenant_id=a"):
            assert api(scope).get(path).json()["data"] == []


def test_without_a_key_nothing_is_told_apart() -> None:
    endpoint = rows.endpoint("a")
    for method, path, _ in WALK:
        answers = {
            without_id(Api().send(method, path.format(id=given), None))
            for given in (endpoint.public_id, "whk_x")
        }
        assert len(answers) == 1
        assert json.loads(answers.pop())["code"] == "unauthenticated"
