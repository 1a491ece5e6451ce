"""Examples for every operation of the OpenAPI document: requests by hand, answers from their schemas."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_TAIL: Final = "_01KB5C7Q2M8ZVJ4W6XTRNEHDG3"
_MOMENT: Final = "2026-10-01T12:00:00.000Z"
_WEBHOOK: Final = {"url": "https://hooks.example.com/in", "events": ["order.*"]}
_EVENT: Final = {"type": "order.paid", "data": {"order_id": 7, "total": "12.50"}}
_CLOUDEVENT: Final = {"specversion": "1.0", "id": "7", "source": "/shop", **_EVENT}
# By the component that a body is.
REQUESTS: Final[Mapping[str, Any]] = {
    "EventCreate": {**_EVENT, "owner": {"kind": "order", "id": "7"}, "event_id": "order-7-paid"},
    "EventBatch": {"events": [_EVENT, {"type": "order.sent", "data": {"order_id": 7}}]},
    "CloudEvent": _CLOUDEVENT,
    "WebhookCreate": {**_WEBHOOK, "description": "Orders", "policy": "standard"},
    "PatchedWebhookUpdate": {"events": ["order.paid"], "enabled": True},
    "RotateSecret": {"overlap_hours": 24},
    "Replay": {"since": "2026-09-30T00:00:00Z", "status": "dead"},
    "Recover": {"since": "2026-09-30T00:00:00Z"},
    "BulkRetry": {"status": "dead", "error": "timeout"},
    "MatchRequest": {"type": "order.paid"},
}
# By the name of a member of an answer, or of a component and its member.
_NAMED: Final[Mapping[str, Any]] = {
    "Event.id": f"evt{_TAIL}",
    "EventDetail.id": f"evt{_TAIL}",
    "EventAccepted.id": f"evt{_TAIL}",
    "Delivery.id": f"dlv{_TAIL}",
    "Attempt.id": f"att{_TAIL}",
    "Job.id": f"job{_TAIL}",
    "AuditEntry.id": f"aud{_TAIL}",
    "AuditActor.id": f"key{_TAIL}",
    "AuditActor.kind": "key",
    "AuditTarget.type": "webhook",
    "Owner.kind": "order",
    "Owner.id": "7",
    "EventDetail.data": _EVENT["data"],
    "EventType.example": _EVENT["data"],
    "EventType.name": "order.paid",
    "EventType.description": "The customer has paid.",
    "HeaderShown.name": "X-Team",
    "HeaderShown.value": "orders",
    "HeaderShown.secret": False,
    "MissedEvent.state": "exhausted",
    "MissedEvent.last_error": "timeout",
    "Attempt.reply": {"headers": [{"name": "Content-Type", "value": "text/plain"}], "body": "ok"},
    "id": f"whk{_TAIL}",
    "webhook_id": f"whk{_TAIL}",
    "event_id": f"evt{_TAIL}",
    "delivery_id": f"dlv{_TAIL}",
    "request_id": f"req{_TAIL}",
    "action": "webhook.updated",
    "attempts": 1,
    "code": "timeout",
    "description": "Orders",
    "event_type": "order.paid",
    "events": _WEBHOOK["events"],
    "http_status": 200,
    "max_in_flight": 100,
    "name": "Orders",
    "paused": False,
    "policy": "standard",
    "policy_overrides": {},
    "same_url": [],
    "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "subject": "orders/7",
    "tenant_id": "42",
    "trigger": "schedule",
    "type": "order.paid",
    "url": _WEBHOOK["url"],
}
# What is null in an example, where it may be.
_NULL: Final = frozenset(
    [
        "disabled_at",
        "disabled_reason",
        "due_at",
        "error",
        "expires_at",
        "failing_since",
        "finished_at",
        "health_warning",
        "hold_until",
        "identity_id",
        "identity_ids",
        "last_error",
        "last_failure_at",
        "next_attempt_at",
        "next_cursor",
        "next_probe_at",
        "owner",
        "partner_id",
        "permission",
        "rate_limit",
        "reason",
        "since",
    ]
)
_LEFT_OUT: Final = frozenset({"secret_replayed"})
_PLAIN: Final = {"string": "text", "integer": 1, "number": 0.5, "boolean": True, "object": {}, "null": None}


def with_examples(result: Any, **_: Any) -> Any:
    """Put an example into every body and every success of the document."""
    components = result["components"]["schemas"]
    for operation in (each for methods in result["paths"].values() for each in methods.values()):
        for media in operation.get("requestBody", {}).get("content", {}).values():
            media["example"] = _request(media["schema"])
        for media in _successes(operation):
            media["example"] = sample(media["schema"], components)
    return result


def sample(schema: Schema, components: Mapping[str, Schema], name: str = "", within: str = "") -> Any:
    """Return a value of the schema; `name` is the member's and `within` its component's."""
    for known in (f"{within}.{name}", name):
        if known in _NAMED and name:
            return _NAMED[known]
    if "oneOf" in schema or "allOf" in schema:
        choices = (*schema.get("oneOf", ()), *schema.get("allOf", ()))
        nullable = any(each.get("type") == "null" for each in choices)
        return None if nullable and name in _NULL else sample(choices[0], components, name, within)
    if "$ref" in schema:
        within = schema["$ref"].rpartition("/")[2]
        return sample(components[within], components, "", within)
    return _of_type(schema, components, name, within)


def _of_type(schema: Schema, components: Mapping[str, Schema], name: str, within: str) -> Any:
    kinds = schema.get("type", "object")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "null" in kinds and name in _NULL:
        return None
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date-time":
        return _MOMENT
    if kinds[0] == "array":
        return [sample(schema["items"], components, "", within)]
    if "properties" in schema:
        members = schema["properties"].items()
        return {
            each: sample(part, components, each, within) for each, part in members if each not in _LEFT_OUT
        }
    return _PLAIN[kinds[0]]


def _request(schema: Schema) -> Any:
    if schema.get("type") == "array":
        return [_request(schema["items"])]
    return REQUESTS.get(schema["$ref"].rpartition("/")[2], {})


def _successes(operation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield from answer.get("content", {}).values()
