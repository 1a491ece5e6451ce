"""Who would get an event, why others would not; and the catalogue of types."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.api import rows
from tests.api.client import Api
from webhooks_app import event_type, event_types
from webhooks_app.actions.disable import disable
from webhooks_app.actions.match_event import MAX_MATCHES
from webhooks_app.actions.pause import pause
from webhooks_app.exceptions import ConfigurationError

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "_types", {})


def matches(api: Api, **event: Any) -> dict[str, str | None]:
    found = api.post("/webhooks/match", {"type": "order.paid", **event}).json()["data"]
    assert all(each["matches"] == (each["reason"] is None) for each in found)
    return {each["webhook_id"]: each["reason"] for each in found}


def test_every_reason(mine: Api) -> None:
    everything = rows.endpoint().public_id
    prefix = rows.endpoint(events=["order.*"], identity_ids=["u1"]).public_id
    other = rows.endpoint(events=["user.created"]).public_id
    nothing = rows.endpoint(events=[]).public_id
    nobody = rows.endpoint(identity_ids=[]).public_id
    off, held = rows.endpoint(), rows.endpoint()
    disable(rows.OPERATOR, off)
    pause(rows.OPERATOR, held)
    before = rows.snapshot()
    assert matches(mine, identity_id="u1") == {
        everything: None,
        prefix: None,
        other: "event_type",
        nothing: "event_type",
        nobody: "identity",
        off.public_id: "disabled",
        held.public_id: None,
    }
    assert matches(mine)[prefix] == "identity"
    assert rows.snapshot() == before


def test_it_shows_the_callers_webhooks_only(api: Callable[..., Api]) -> None:
    ours, partners, theirs = rows.endpoint("a"), rows.endpoint(None, partner_id="p"), rows.endpoint("c")
    platform = rows.endpoint(None)
    assert set(matches(api())) == {ours.public_id}
    assert set(matches(api("partner:p"), tenant_id="a")) == {ours.public_id, partners.public_id}
    assert set(matches(api("partner:p"), tenant_id="b")) == {partners.public_id}
    assert matches(api("platform"), tenant_id="c") == {theirs.public_id: None, platform.public_id: None}
    assert matches(api("platform")) == {platform.public_id: None}
    for scope in ("tenant:a", "partner:p"):
        response = api(scope).post("/webhooks/match", {"type": "x.y", "tenant_id": "c"})
        assert response.json()["code"] == "tenant_not_found"


def test_environments_and_types_of_ours(api: Callable[..., Api]) -> None:
    live = rows.endpoint().public_id
    testing = rows.endpoint(environment="test").public_id
    assert set(matches(api())) == {live}
    assert set(matches(api(environment="test"))) == {testing}
    assert matches(api(), type="webhook.test") == {live: "scope"}


def test_it_says_what_the_fan_out_does(api: Callable[..., Api]) -> None:
    assert MAX_MATCHES >= 20 * 3
    rows.endpoint(None, environment="live")
    assert api("platform").post("/webhooks/match", {"type": "x y"}).status_code == 400


def test_the_catalogue(mine: Api) -> None:
    assert mine.get("/event-types").json() == {"data": []}
    event_type("order.paid", description="Paid.", example={"total": "1.00"})
    event_type("message.received", permission="messages:read")
    assert mine.get("/event-types").json()["data"] == [
        {"name": "message.received", "description": "", "permission": "messages:read", "example": None},
        {"name": "order.paid", "description": "Paid.", "permission": None, "example": {"total": "1.00"}},
    ]


def test_a_type_is_registered_once() -> None:
    made = event_type("order.paid", description="x")
    assert event_type("order.paid", description="x") == made
    with pytest.raises(ConfigurationError, match="twice"):
        event_type("order.paid")
    for name in ("", "order.*", "*", "a b", "é", "x" * 129, 5):
        with pytest.raises(ConfigurationError, match="no event type"):
            event_type(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], set()),
        (["*"], {"messages:read", "quarantine:review"}),
        (["order.paid"], set()),
        (["order.*"], set()),
        (["message.received"], {"messages:read"}),
        (["message.*"], {"messages:read", "quarantine:review"}),
        (["message"], set()),
        (["message.quarantined", "x.y"], {"quarantine:review"}),
        (["messages.*"], set()),
    ],
)
def test_what_patterns_take(patterns: list[str], expected: set[str]) -> None:
    event_type("order.paid")
    event_type("message.received", permission="messages:read")
    event_type("message.quarantined", permission="quarantine:review")
    assert event_types.permissions_for(patterns) == expected
