"""Order, rate, policy and a URL that has to prove itself, as clients of the API meet them."""

from typing import Any

import pytest

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app.api.serializers.webhook_limits import PolicyOverrides
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.policies import STANDARD, PolicyError, with_overrides
from webhooks_app.destinations import https
from webhooks_app.destinations.base import Sent
from webhooks_app.models import EndpointState

pytestmark = pytest.mark.django_db

URL = "https://x.hooks.test/in"
BODY = {"url": URL, "events": ["*"]}


def test_create_and_read(mine: Api) -> None:
    fields = {
        "policy": "strict",
        "policy_overrides": {"waits": [5, 10], "breaker": {"failures": 3}, "auto_disable": False},
        "ordering": "subject",
        "max_in_flight": 4,
        "rate_limit": {"per_second": 5, "burst": 10},
    }
    made = mine.post("/webhooks", {**BODY, **fields}).json()
    assert {name: made[name] for name in fields} == fields
    read = mine.get(f"/webhooks/{made['id']}").json()
    assert {name: read[name] for name in fields} == fields
    assert mine.get("/webhooks").json()["data"] == [read]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, ("none", 100)),
        ({"policy": "quick"}, ("fifo", 1)),
        ({"ordering": "fifo"}, ("fifo", 1)),
        ({"policy": "quick", "ordering": "none"}, ("none", 1)),
    ],
)
def test_what_is_left_out_the_policy_says(mine: Api, given: Any, shown: Any) -> None:
    made = mine.post("/webhooks", {**BODY, **given}).json()
    assert (made["ordering"], made["max_in_flight"]) == shown


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"policy": "hopeful"}, "policy"),
        ({"ordering": "random"}, "ordering"),
        ({"ordering": "fifo", "max_in_flight": 2}, "max_in_flight"),
        ({"rate_limit": {"per_second": 0, "burst": 1}}, "rate_limit/per_second"),
        ({"rate_limit": {"burst": 1}}, "rate_limit/per_second"),
        ({"rate_limit": {"per_second": 1, "per_hour": 1}}, "rate_limit/per_hour"),
        ({"policy_overrides": {"waits": [5, 0.5]}}, "policy_overrides/waits/1"),
        ({"policy_overrides": {"breaker": {"failures": 0}}}, "policy_overrides/breaker/failures"),
        ({"policy_overrides": {"breaker": {"speed": 1}}}, "policy_overrides/breaker/speed"),
        ({"policy_overrides": {"auto_disable": True}}, "policy_overrides/auto_disable"),
        ({"policy_overrides": {"total_timeout": 61}}, "policy_overrides/total_timeout"),
    ],
)
def test_what_is_refused_is_named(mine: Api, given: Any, path: str) -> None:
    endpoint = rows.endpoint()
    assert list(errors(mine.post("/webhooks", {**BODY, **given}))) == [path]
    assert list(errors(mine.patch(f"/webhooks/{endpoint.public_id}", given))) == [path]


@pytest.mark.parametrize("part", ["auto_disable", "breaker"])
@pytest.mark.parametrize("value", [True, 5, 0, "false", [], None])
def test_what_is_neither_an_object_nor_false(mine: Api, part: str, value: Any) -> None:
    refused = mine.post("/webhooks", {**BODY, "policy_overrides": {part: value}})
    assert errors(refused) == {f"policy_overrides/{part}": "Must be a JSON object or false."}


@pytest.mark.parametrize("literal", [b"NaN", b"Infinity", b"1e400"])
def test_numbers_that_are_none(mine: Api, literal: bytes) -> None:
    body = b'{"url": "%s", "events": ["*"], "rate_limit": {"per_second": %s}}' % (URL.encode(), literal)
    assert mine.post("/webhooks", body).status_code == 400


def test_a_rate_without_burst_is_filled_in(mine: Api) -> None:
    made = mine.post("/webhooks", {**BODY, "rate_limit": {"per_second": 0.5}}).json()
    assert made["rate_limit"] == {"per_second": 0.5, "burst": 1.0}
    assert mine.patch(f"/webhooks/{made['id']}", {"rate_limit": None}).json()["rate_limit"] is None


def test_a_policy_of_the_operators_own(mine: Api, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "POLICIES": {"patient": {"base": "strict"}}}
    assert mine.post("/webhooks", {**BODY, "policy": "patient"}).json()["policy"] == "patient"


def test_breaker_and_warning_are_shown(mine: Api) -> None:
    path = f"/webhooks/{rows.endpoint(policy='exponential').public_id}"
    EndpointState.objects.update(breaker="open", health_warning="redirect")
    shown = mine.get(path).json()
    assert (shown["breaker"], shown["health_warning"]) == ("open", "redirect")
    assert mine.patch(path, {"policy": "strict"}).json()["breaker"] == "closed"
    EndpointState.objects.update(breaker="open")
    assert mine.post(f"{path}/resume").json()["breaker"] == "closed"


def test_the_document_has_every_override_that_core_knows() -> None:
    with pytest.raises(PolicyError, match="known are") as caught:
        with_overrides(STANDARD, {"nope": 1})
    known = caught.value.message.partition("known are ")[2].split(", ")
    assert set(PolicyOverrides().fields) == set(known)


@pytest.mark.parametrize("part", ["auto_disable", "breaker"])
def test_and_every_part_of_those_that_are_objects(part: str) -> None:
    with pytest.raises(PolicyError, match="known are") as caught:
        with_overrides(STANDARD, {part: {"nope": 1}})
    known = caught.value.message.partition("known are ")[2].split(", ")
    assert set(PolicyOverrides().fields[part].shape().fields) == set(known)


def test_a_new_url_proves_itself_by_a_test(mine: Api, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "URL_CHANGE": "disable"}
    path = f"/webhooks/{rows.endpoint().public_id}"
    moved = mine.patch(path, {"url": "https://y.hooks.test/"}).json()
    assert (moved["enabled"], moved["disabled_reason"]) == (False, "url_changed")
    refused = mine.patch(path, {"enabled": True})
    assert (refused.status_code, list(errors(refused))) == (400, ["enabled"])
    assert "test" in refused.json()["fix"]
    for status, enabled in ((500, False), (200, True)):
        result = AttemptResult(error="" if enabled else "status_5xx", http_status=status)
        monkeypatch.setattr(https, "send", lambda *_, result=result: Sent(result))
        assert mine.post(f"{path}/test").json()["http_status"] == status
        assert mine.get(path).json()["enabled"] is enabled
