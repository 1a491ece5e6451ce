"""Every path that names something, with somebody else's and with nobody's id: one and the same answer."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from django.urls import URLPattern

from tests.api import rows
from tests.api.client import Api
from webhooks_app.api.urls import urlpatterns
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.django_db

NONSENSE = ["%00", "x" * 300, "%ed%a0%80", "ä", "a b", "*", "..", "-1", "null"]
ULID = "01JAAAAAAAAAAAAAAAAAAAAAAA"
PREFIXES = {"webhooks": "whk", "events": "evt", "deliveries": "dlv", "attempts": "att", "jobs": "job"}
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


def lists() -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the path of every list without an id in it, and its parameters."""
    for pattern in urlpatterns:
        if isinstance(pattern, URLPattern) and "<" not in str(pattern.pattern):
            operation = getattr(getattr(pattern.callback, "cls", None), "operations", {}).get("GET")
            if operation is not None and operation.query is not None:
                yield f"/{pattern.pattern}".removeprefix("/v1"), frozenset(operation.query().fields)


WALK = list(operations())
LISTS = dict(lists())
STRANGERS = ["tenant:b", "tenant:c", "tenant:d", "tenant:nobody", "partner:q", "partner:nobody"]
each_operation = pytest.mark.parametrize(
    ("method", "path", "operation"), WALK, ids=[operation for _, _, operation in WALK]
)


@dataclass(frozen=True)
class Owned:
    """Objects of tenant a, whose partner is p."""

    ids: Mapping[str, list[str]]

    def of(self, path: str) -> list[str]:
        return self.ids[path.split("/")[1]]


@pytest.fixture
def owned(tenants: None, api: Callable[..., Api]) -> Owned:
    endpoint = rows.endpoint("a")
    about = rows.event("a", partner_id="p")
    delivery = rows.delivery(endpoint, about)
    waiting = api("tenant:a").post("/events", {"type": "x.y", "data": {}}).json()["id"]
    return Owned(
        {
            "webhooks": [endpoint.public_id],
            "events": [about.public_id, waiting],
            "deliveries": [delivery.public_id],
            "attempts": [rows.attempt(endpoint, delivery).public_id, rows.attempt(endpoint).public_id],
            "jobs": [rows.job(endpoint).public_id],
        }
    )


def missing(path: str) -> list[str]:
    prefix = PREFIXES[path.split("/")[1]]
    others = [each for each in PREFIXES.values() if each != prefix]
    shapes = [ULID, ULID.lower(), "x", "", ULID + "0", "8" + ULID[1:]]
    return [f"{prefix}_{shape}" for shape in shapes] + [f"{each}_{ULID}" for each in others] + NONSENSE


def body_of(method: str, operation: str) -> Any:
    return VALID_BODIES.get(operation, {}) if method in ("POST", "PATCH") else None


def without_id(response: Any) -> bytes:
    body = response.json()
    del body["request_id"]
    return json.dumps(body).encode()


def test_the_walk_is_the_api() -> None:
    assert {path.split("/")[1] for _, path, _ in WALK} == set(PREFIXES)
    assert {method for method, _, _ in WALK} == {"GET", "POST", "PATCH", "DELETE"}
    assert set(VALID_BODIES) <= {operation for _, _, operation in WALK}


@each_operation
def test_foreign_and_missing_are_one(
    api: Callable[..., Api], owned: Owned, method: str, path: str, operation: str
) -> None:
    body, foreign = body_of(method, operation), owned.of(path)
    strangers = [api(scope) for scope in STRANGERS] + [api("tenant:a", environment="test")]
    entitled = [api("tenant:a"), api("platform")]
    before = rows.snapshot()
    answers = {
        without_id(stranger.send(method, path.format(id=given), body))
        for stranger in strangers
        for given in foreign
    }
    for caller in (strangers[0], *entitled):
        answers |= {without_id(caller.send(method, path.format(id=given), body)) for given in missing(path)}
    answers |= {without_id(strangers[0].send(method, path.format(id=foreign[0]), {"wrong": 1}))}
    (answer,) = answers
    noun = {"deliveries": "delivery"}.get(path.split("/")[1], path.split("/")[1].removesuffix("s"))
    assert json.loads(answer)["code"] == f"{noun}_not_found"
    changed = {name for name, found in rows.snapshot().items() if found != before[name]}
    assert not changed


@each_operation
def test_a_deleted_webhook_is_missing(
    api: Callable[..., Api], owned: Owned, method: str, path: str, operation: str
) -> None:
    if path.split("/")[1] in ("events", "jobs"):
        return
    Endpoint.objects.update(deleted_at=rows.NOW)
    body = body_of(method, operation)
    for caller in (api("tenant:a"), api("platform")):
        deleted = {without_id(caller.send(method, path.format(id=each), body)) for each in owned.of(path)}
        assert deleted == {without_id(caller.send(method, path.format(id="x"), body))}


@each_operation
def test_a_partner_reaches_its_tenants(
    api: Callable[..., Api], owned: Owned, method: str, path: str, operation: str
) -> None:
    body = {"description": "x"} if method == "PATCH" else {} if method == "POST" else None
    response = api("partner:p").send(method, path.format(id=owned.of(path)[0]), body)
    # Some need more than an empty body, or call the receiver; none says that there is no such thing.
    assert response.status_code != 404


@pytest.mark.parametrize("path", LISTS)
def test_lists_show_strangers_nothing(api: Callable[..., Api], owned: Owned, path: str) -> None:
    (webhook,) = owned.ids["webhooks"]
    filters = {"tenant_id": "a", "webhook_id": webhook, "target_id": webhook}
    assert api("tenant:a").get(path).json()["data"]
    for scope in STRANGERS:
        found = api(scope).get(path).json()["data"]
        # A stranger's own key was made by somebody, and that is all it finds.
        assert {row["target"]["type"] for row in found} <= {"api_key"}
        assert not any(row["tenant_id"] == "a" for row in found)
        for name in filters.keys() & LISTS[path]:
            assert api(scope).get(path, {name: filters[name]}).json() == {"data": [], "next_cursor": None}


@pytest.mark.parametrize("path", LISTS)
def test_lists_keep_the_environments_apart(api: Callable[..., Api], owned: Owned, path: str) -> None:
    (webhook,) = owned.ids["webhooks"]
    testing = api("tenant:a", environment="test")
    assert webhook in api("tenant:a").get(path).content.decode() or path == "/events"
    assert webhook not in testing.get(path).content.decode()
    assert path == "/audit" or testing.get(path).json()["data"] == []


@pytest.mark.parametrize("path", LISTS)
def test_filters_by_what_is_missing_and_by_nonsense(api: Callable[..., Api], owned: Owned, path: str) -> None:
    mine = api("tenant:a")
    for name in {"tenant_id", "webhook_id", "target_id"} & LISTS[path]:
        for given in ("b", "whk_x", f"whk_{ULID}", "ä", "%", "' OR 1=1 --"):
            assert mine.get(path, {name: given}).json()["data"] == []


def test_without_a_key_nothing_is_told_apart(owned: Owned) -> None:
    for method, path, _ in WALK:
        answers = {
            without_id(Api().send(method, path.format(id=given), None)) for given in (*owned.of(path), "x")
        }
        assert len(answers) == 1
        assert json.loads(answers.pop())["code"] == "unauthenticated"
