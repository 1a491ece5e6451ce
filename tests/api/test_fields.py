"""Every field of every body wrong in turn, made from the OpenAPI document: 400, its path, and no change."""

import copy
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.api import rows
from tests.api.client import Api
from webhooks_app.api.schema import document

SECRET = "whsec_" + "A" * 42 + "8="
WEBHOOK = {
    "url": "https://x.hooks.test/",
    "events": ["order.paid"],
    "identity_ids": ["u1"],
    "description": "x",
    "policy": "standard",
    "policy_overrides": {
        "waits": [1],
        "jitter": 0.1,
        "connect_timeout": 1,
        "total_timeout": 2,
        "reply_bytes": 9,
        "time_to_live": None,
        "retried": [503],
        "auto_disable": {"warnings": [0.5], "start_within": None},
        "breaker": {"failures": 3},
    },
    "method": "POST",
    "headers": [{"name": "X-A", "value": "b", "secret": True}],
    "max_in_flight": 2,
    "ordering": "subject",
    "rate_limit": {"per_second": 5, "burst": 10},
}
EVENT = {
    "type": "order.paid",
    "data": {"a": 1},
    "tenant_id": "a",
    "identity_id": "u1",
    "owner": {"kind": "order", "id": "1"},
    "subject": "s",
    "event_id": "e1",
    "occurred_at": datetime.now(UTC).isoformat(),
    "expires_at": "2999-10-01T12:00:00Z",
    "environment": "live",
}
CREATE = {**WEBHOOK, "tenant_id": "a", "secret": SECRET, "environment": "live"}
UPDATE = {**WEBHOOK, "enabled": True, "retarget_pending": True}
REPLAY = {"since": EVENT["occurred_at"], "until": EVENT["expires_at"], "status": "dead"}
BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "EventCreate": ("POST", "/events", EVENT),
    "WebhookCreate": ("POST", "/webhooks", CREATE),
    "PatchedWebhookUpdate": ("PATCH", "/webhooks/{id}", UPDATE),
    "RotateSecret": ("POST", "/webhooks/{id}/rotate-secret", {"overlap_hours": 1, "secret": SECRET}),
    "Replay": ("POST", "/webhooks/{id}/replay", REPLAY),
    "Recover": ("POST", "/webhooks/{id}/recover", {"since": EVENT["occurred_at"]}),
    "BulkRetry": ("POST", "/deliveries/bulk-retry", {**REPLAY, "error": "dns", "event_type": "order.paid"}),
    "EventBatch": ("POST", "/events/batch", {"events": [EVENT]}),
    "MatchRequest": (
        "POST",
        "/webhooks/match",
        {"type": "order.paid", "tenant_id": "a", "identity_id": "u1", "environment": "live"},
    ),
}
# Beyond the type: what the schema cannot say is refused by the actions, and tested with them.
WRONG_BY_TYPE: dict[str, list[Any]] = {
    "string": [5, 1.5, True, [], {}, "", "a\0b", "\ud800", ["x"]],
    "boolean": ["true", "false", "", 0, 1, [], {}],
    "integer": ["5", 1.0, True, [], {}, -(10**30), 10**30],
    "number": ["5", True, [], {}, -1, 10**400],
    "array": ["x", 5, True, {}, {"0": "x"}],
    "object": ["x", 5, True, [], [{}]],
}
Fault = tuple[tuple[Any, ...], Any]


def schema(name: str) -> Mapping[str, Any]:
    return document()["components"]["schemas"][name]  # type: ignore[no-any-return]


def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    for inner in (part, *part.get("allOf", ()), *part.get("oneOf", ())):
        if "$ref" in inner:
            found = schema(inner["$ref"].rpartition("/")[2])
            return {**found, **part, "type": [found["type"], *_null(part)]}
    # An object, or false.
    inline = next((each for each in part.get("oneOf", ()) if each.get("type") == "object"), {})
    return {**inline, **part}


def _null(part: Mapping[str, Any]) -> list[str]:
    return [each["type"] for each in part.get("oneOf", ()) if each.get("type") == "null"]


def wrong_values(part: Mapping[str, Any]) -> Iterator[Any]:
    kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
    if "null" not in kinds:
        yield None
    yield from (
        v for v in WRONG_BY_TYPE[kinds[0]] if not ("null" in kinds and v == "" and kinds[0] == "string")
    )
    if "enum" in part:
        yield from ("nope", part["enum"][0].swapcase(), part["enum"][0] + " ")
    if part.get("format") == "date-time":
        yield from (
            "2026-10-01",
            "2026-10-01T12:00:00",
            "2026-02-30T00:00:00Z",
            "now",
            "١٠26-10-01T12:00:00Z",
        )
    if "maxLength" in part:
        yield "x" * (part["maxLength"] + 1)
    if "maximum" in part:
        yield from (part["maximum"] + 1, part["minimum"] - 1)
    if "maxItems" in part:
        yield [f"x{n}" for n in range(part["maxItems"] + 1)]


def faults(part: Mapping[str, Any], path: tuple[Any, ...]) -> Iterator[Fault]:
    """Yield every wrong value for a field and for what is inside it."""
    part = resolved(part)
    for value in wrong_values(part):
        yield path, value
    for name, member in part.get("properties", {}).items():
        yield from faults(member, (*path, name))
    if "properties" in part:
        yield (*path, "nope"), 1
    if "items" in part:
        yield from faults(part["items"], (*path, 0))


def cases(name: str) -> Iterator[Fault]:
    for field, part in schema(name)["properties"].items():
        yield from faults(part, (field,))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(body)
    target = changed
    for step, following in pairwise(path):
        target = target.setdefault(step, [None] if following == 0 else {}) if step != 0 else target[0]
    target[path[-1]] = value
    return changed


@pytest.mark.once
@pytest.mark.django_db
@pytest.mark.parametrize("name", BODIES)
def test_every_wrong_value_of_every_field(mine: Api, name: str) -> None:
    method, where, body = BODIES[name]
    where = where.format(id=rows.endpoint().public_id)
    before = rows.snapshot()
    table = list(cases(name))
    for path, value in table:
        response = mine.send(method, where, put(body, path, value))
        wanted = "/".join(map(str, path))
        shown = f"{wanted} = {str(value)[:40]!a}: {response.content!r}"
        assert response.status_code == 400, shown
        named = [error["path"] for error in response.json()["errors"]]
        assert any(each == wanted or each.startswith(f"{wanted}/") for each in named), shown
        assert all(error["message"] for error in response.json()["errors"]), shown
    assert len(table) > 8 * len(schema(name)["properties"])
    assert rows.snapshot() == before


@pytest.mark.once
@pytest.mark.django_db
@pytest.mark.parametrize("name", BODIES)
def test_what_is_required_and_what_is_unknown(mine: Api, name: str) -> None:
    method, where, body = BODIES[name]
    where = where.format(id=rows.endpoint().public_id)
    before = rows.snapshot()
    for field in schema(name).get("required", []):
        response = mine.send(method, where, {key: body[key] for key in body if key != field})
        assert [error["path"] for error in response.json()["errors"]] == [field]
    for field in ("nope", "Url", "id", "enabled ", "", "x" * 5000, "a\0b", "\ud800", "a/b"):
        response = mine.send(method, where, {**body, field: 1})
        assert response.status_code == 400
        assert len(response.json()["errors"]) == 1
    assert rows.snapshot() == before


@pytest.mark.django_db
@pytest.mark.parametrize("name", BODIES)
def test_nothing_else_is_wrong_with_them(mine: Api, name: str) -> None:
    method, where, body = BODIES[name]
    response = mine.send(method, where.format(id=rows.endpoint().public_id), body)
    assert response.status_code < 300, response.content


def test_no_body_is_forgotten() -> None:
    used = {
        media["schema"]["$ref"].rpartition("/")[2]
        for methods in document()["paths"].values()
        for operation in methods.values()
        for kind, media in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json"
    }
    # The empty body of the verbs below has no fields.
    assert used - {"Nothing"} == set(BODIES)


@pytest.mark.django_db
def test_a_thousand_faults_are_not_all_listed(mine: Api) -> None:
    response = mine.post("/webhooks", {f"f{n}": 1 for n in range(1000)})
    assert len(response.json()["errors"]) == 100


@pytest.mark.once
@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/webhooks/{id}/pause", "/webhooks/{id}/resume", "/webhooks/{id}/test"])
@pytest.mark.parametrize("body", [[], "x", 5, {"a": 1}])
def test_verbs_without_a_body_take_none(mine: Api, path: str, body: Any) -> None:
    endpoint = rows.endpoint()
    before = rows.snapshot()
    assert mine.post(path.format(id=endpoint.public_id), body).status_code == 400
    assert rows.snapshot() == before
