"""What holds for every operation: examples work, answers repeat, ids in bodies, methods, permissions."""

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import URLPattern

from tests.api import rows
from tests.api.client import ROOT, Api, errors
from tests.api.every import ALL, HOSTS, Call, call_nobody, ids_of
from tests.api.test_walk import LISTS
from webhooks_app.api.stored_answers import SECRET_REPLAYED
from webhooks_app.api.urls import urlpatterns
from webhooks_app.models import IdempotencyRecord

pytestmark = pytest.mark.django_db
KEY = {"HTTP_IDEMPOTENCY_KEY": "k"}
PATTERNS = [
    str(each.pattern)
    for each in urlpatterns
    if isinstance(each, URLPattern) and hasattr(each.callback, "cls") and "^" not in str(each.pattern)
]
POSTS = [call for call in ALL if call.method == "POST"]


def named(call: Call) -> str:
    return (
        f"{call.operation} {call.media_type.rpartition('/')[2]}" if call.body is not None else call.operation
    )


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    call_nobody(monkeypatch)
    settings.WEBHOOKS = {**settings.WEBHOOKS, "STATIC_HOSTS": HOSTS}


@pytest.fixture
def ids(tenants: None) -> dict[str, str]:
    return ids_of(rows.endpoint("a"))


def send(api: Api, call: Call, ids: dict[str, str], **extra: Any) -> Any:
    path = call.path.format(id=ids.get(call.noun, ""))
    return api.send(call.method, path, call.body, call.media_type, **extra)


@pytest.mark.parametrize("call", ALL, ids=named)
def test_its_example_works(mine: Api, ids: dict[str, str], call: Call) -> None:
    response = send(mine, call, ids)
    assert response.status_code < 300, response.content
    if call.method == "GET":
        head = mine.client.head(ROOT + call.path.format(id=ids.get(call.noun, "")), **mine.headers)
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("call", POSTS, ids=named)
def test_a_repeated_request_acts_once(mine: Api, ids: dict[str, str], call: Call) -> None:
    first = send(mine, call, ids, **KEY)
    after = rows.snapshot()
    second = send(mine, call, ids, **KEY)
    assert second["Idempotency-Replayed"] == "true"
    assert rows.snapshot() == after
    told = {name: value for name, value in first.json().items() if name != "secret"}
    again = {name: value for name, value in second.json().items() if name != SECRET_REPLAYED}
    assert (second.status_code, again) == (first.status_code, told)
    assert b"whsec_" not in bytes(IdempotencyRecord.objects.get().body or b"")


@pytest.mark.once
@pytest.mark.parametrize("call", ALL, ids=named)
def test_it_takes_a_permission(api: Callable[..., Api], ids: dict[str, str], call: Call) -> None:
    caller = api(permissions=["other:thing"])
    before = rows.snapshot()
    response = send(caller, call, ids)
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert len(response.json()["details"]["required"]) == 1
    assert rows.snapshot() == before


@pytest.mark.once
@pytest.mark.parametrize("call", ALL, ids=named)
def test_a_reader_changes_nothing(api: Callable[..., Api], ids: dict[str, str], call: Call) -> None:
    caller = api(permissions=["webhooks:read"])
    before = rows.snapshot()
    assert send(caller, call, ids).status_code in (200, 403)
    assert rows.snapshot() == before


@pytest.mark.once
@pytest.mark.parametrize("pattern", PATTERNS)
def test_other_methods_are_refused(mine: Api, ids: dict[str, str], pattern: str) -> None:
    path = f"/{pattern}".removeprefix("/v1").replace("<str:id>", "x")
    real = {call.method for call in ALL if call.path.replace("{id}", "x") == path}
    real = real or {"GET", "HEAD"}
    before = rows.snapshot()
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - real:
        response = mine.send(method, path, None)
        assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed"), method
        assert set(response["Allow"].split(", ")) == (real | {"HEAD"} if "GET" in real else real)
    assert rows.snapshot() == before


IDS_IN_BODIES = [
    ("/events", {"type": "x.y", "data": {}, "tenant_id": "{tenant}"}, "tenant_not_found"),
    ("/events/batch", {"events": [{"type": "x.y", "data": {}, "tenant_id": "{tenant}"}]}, "tenant_not_found"),
    ("/webhooks/match", {"type": "x.y", "tenant_id": "{tenant}"}, "tenant_not_found"),
    ("/webhooks", {"url": "https://x.test/", "events": [], "tenant_id": "{tenant}"}, "tenant_not_found"),
    ("/webhooks", {"url": "https://x.test/", "events": [], "partner_id": "{partner}"}, "partner_not_found"),
    ("/webhooks/{own}/replay", {"event_ids": ["evt_1"], "to": "{webhook}"}, "webhook_not_found"),
    ("/deliveries/bulk-retry", {"webhook_id": "{webhook}"}, "webhook_not_found"),
]


@pytest.mark.parametrize(("path", "body", "code"), IDS_IN_BODIES)
def test_foreign_ids_in_bodies_are_missing(
    api: Callable[..., Api], ids: dict[str, str], path: str, body: Any, code: str
) -> None:
    caller, own = api("tenant:d"), rows.endpoint("d").public_id
    before, answers = rows.snapshot(), set()
    for tenant, partner, webhook in [
        ("a", "p", ids["webhooks"]),
        ("nobody", "nobody", "whk_01JAAAAAAAAAAAAAAAAAAAAAAA"),
        ("é", "é", "whk_x"),
        ("*", "*", ids["events"]),
    ]:
        given = filled(body, {"tenant": tenant, "partner": partner, "webhook": webhook})
        answer = caller.post(path.format(own=own), given).json()
        del answer["request_id"]
        answers.add(str(answer))
        assert answer["code"] == code
    assert len(answers) == 1
    assert rows.snapshot() == before


def filled(part: Any, values: dict[str, str]) -> Any:
    if isinstance(part, dict):
        return {name: filled(each, values) for name, each in part.items()}
    if isinstance(part, list):
        return [filled(each, values) for each in part]
    return part.format(**values) if isinstance(part, str) else part


def test_foreign_events_are_replayed_by_nobody(api: Callable[..., Api], ids: dict[str, str]) -> None:
    caller, own = api("tenant:d"), rows.endpoint("d").public_id
    before = rows.snapshot()["Delivery"]
    answer = caller.post(f"/webhooks/{own}/replay", {"event_ids": [ids["events"], "evt_nope"]})
    assert answer.json() == {"queued": 0}
    assert rows.snapshot()["Delivery"] == before


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_is_of_one_caller_and_one_list(api: Callable[..., Api], path: str) -> None:
    for _ in range(3):
        ids_of(rows.endpoint("a"))
    mine, others = api(), [api(), api("partner:p"), api("platform")]
    cursor = mine.get(path, {"limit": 1}).json()["next_cursor"]
    assert mine.get(path, {"limit": 1, "cursor": cursor}).status_code == 200
    for caller, where in [
        *((other, path) for other in others),
        *((mine, each) for each in LISTS if each != path),
    ]:
        response = caller.get(where, {"limit": 1, "cursor": cursor})
        assert (response.status_code, list(errors(response))) == (400, ["cursor"])
