"""The document and the API agree on bodies: what the one refuses the other does not take."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.api import rows
from tests.api.client import Api
from webhooks_app.api.schema import document

pytestmark = pytest.mark.django_db

JSON = "application/json"
CLOUDEVENT, CLOUDEVENTS = "application/cloudevents+json", "application/cloudevents-batch+json"
EVENT: dict[str, Any] = {"type": "order.paid", "data": {}}
FOREIGN: dict[str, Any] = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid"}
WEBHOOK: dict[str, Any] = {"url": "https://x.hooks.test/in", "events": ["*"]}
OPTIONAL = ["subject", "time", "datacontenttype", "dataschema", "data", "tenantid", "identityid", "ownerkind"]
OPTIONAL += ["ownerid", "environment", "expirytime"]

TAKEN = [
    ("/events", JSON, EVENT),
    ("/webhooks", JSON, WEBHOOK),
    ("/webhooks", JSON, {**WEBHOOK, "events": ["order.*", "a_B.9"]}),
    ("/webhooks", JSON, {**WEBHOOK, "policy_overrides": {"breaker": False, "auto_disable": {"failures": 3}}}),
    ("/events", CLOUDEVENT, FOREIGN),
    ("/events", CLOUDEVENT, {**FOREIGN, "traceparent": "00-1", "x9": {"y": [1]}}),
    ("/events", CLOUDEVENT, {**FOREIGN, "data_base64": None, "Odd": None}),
    *(("/events", CLOUDEVENT, {**FOREIGN, name: None}) for name in OPTIONAL),
    ("/events", CLOUDEVENTS, [{**FOREIGN, "subject": None}]),
]
REFUSED = [
    ("/events", JSON, {**EVENT, "colour": "red"}),
    ("/events", JSON, {**EVENT, "owner": {"kind": "order", "id": "7", "name": "x"}}),
    ("/events", JSON, {**EVENT, "type": "order paid"}),
    ("/events", JSON, {**EVENT, "type": "order..paid"}),
    ("/events/batch", JSON, {"events": [EVENT], "more": []}),
    ("/events/batch", JSON, {"events": [{**EVENT, "type": "order."}]}),
    ("/webhooks/match", JSON, {"type": "*"}),
    ("/webhooks/match", JSON, {"type": "order.paid", "data": {}}),
    ("/webhooks", JSON, {**WEBHOOK, "enabled": True}),
    ("/webhooks", JSON, {**WEBHOOK, "events": ["*.paid"]}),
    ("/webhooks", JSON, {**WEBHOOK, "events": ["order*"]}),
    ("/webhooks", JSON, {**WEBHOOK, "headers": [{"name": "X-A", "value": "1", "hidden": True}]}),
    ("/webhooks", JSON, {**WEBHOOK, "headers": [{"name": "X A", "value": "1"}]}),
    ("/webhooks", JSON, {**WEBHOOK, "headers": [{"name": "X-A", "value": " 1"}]}),
    ("/webhooks", JSON, {**WEBHOOK, "headers": [{"name": "X-A", "value": "é"}]}),
    ("/webhooks", JSON, {**WEBHOOK, "rate_limit": {"per_second": 1, "per_minute": 60}}),
    ("/webhooks", JSON, {**WEBHOOK, "policy_overrides": {"tries": 3}}),
    ("/webhooks", JSON, {**WEBHOOK, "policy_overrides": {"breaker": {"limit": 3}}}),
    ("/webhooks/{id}", JSON, {}),
    ("/webhooks/{id}", JSON, {"from": "earliest"}),
    ("/webhooks/{id}/rotate-secret", JSON, {"overlap": 1}),
    ("/webhooks/{id}/replay", JSON, {"since": "2026-10-01T00:00:00Z", "limit": 1}),
    ("/webhooks/{id}/recover", JSON, {"since": "2026-10-01T00:00:00Z", "status": "dead"}),
    ("/webhooks/{id}/pause", JSON, {"for": 60}),
    ("/deliveries/bulk-retry", JSON, {"state": "dead"}),
    ("/events", CLOUDEVENT, {**FOREIGN, "data_base64": "AA=="}),
    ("/events", CLOUDEVENT, {**FOREIGN, "Odd": 1}),
    ("/events", CLOUDEVENT, {**FOREIGN, "id": None}),
    ("/events", CLOUDEVENT, {**FOREIGN, "id": "7\x07"}),
    ("/events", CLOUDEVENT, {**FOREIGN, "subject": "a\x85b"}),
    ("/events", CLOUDEVENT, {**FOREIGN, "source": "the shop"}),
    ("/events", CLOUDEVENT, {**FOREIGN, "type": "com.shop/paid"}),
    ("/events", CLOUDEVENTS, [{**FOREIGN, "source": "<shop>"}]),
]


def verdicts(api: Api, path: str, kind: str, body: Any) -> tuple[bool, bool]:
    """Return whether the body fits the document, and whether the API took it."""
    method = "patch" if path.endswith("{id}") else "post"
    described = document()["paths"][f"/v1{path}"][method]["requestBody"]["content"][kind]["schema"]
    fits = Draft202012Validator({**described, "components": document()["components"]}).is_valid(body)
    id = rows.endpoint("a").public_id
    answer = api.send(method.upper(), path.replace("{id}", id), body, kind)
    assert answer.status_code < 300 or answer.json()["code"] == "invalid_request", answer.content
    return fits, answer.status_code < 300


@pytest.mark.parametrize(("path", "kind", "body"), TAKEN)
def test_what_is_taken_fits_the_document(path: str, kind: str, body: Any, mine: Api) -> None:
    assert verdicts(mine, path, kind, body) == (True, True)


@pytest.mark.parametrize(("path", "kind", "body"), REFUSED)
def test_what_is_refused_does_not_fit_it(path: str, kind: str, body: Any, mine: Api) -> None:
    assert verdicts(mine, path, kind, body) == (False, False)
