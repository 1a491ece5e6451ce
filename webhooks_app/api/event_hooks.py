"""The section `webhooks` of the OpenAPI document: what receivers are sent, by event type."""

from collections.abc import Mapping
from typing import Any, Final

from ..event_types import EventType, event_types
from .own_events import OWN_EVENTS, OwnEvent

_ID: Final = "evt_01KB5C7Q2M8ZVJ4W6XTRNEHDG3"
_STRING: Final = {"type": "string"}
_HEADERS: Final = {
    "webhook-id": "The event; the same on every attempt.",
    "webhook-timestamp": "Seconds since 1970; new on every attempt.",
    "webhook-signature": "`v1,` and base64 of HMAC-SHA256 over id, timestamp and body; or several of them.",
}


def event_hooks() -> dict[str, Any]:
    """Return a path item for every registered type, and for every event that the sender makes itself."""
    all_of_them: list[EventType | OwnEvent] = [*event_types(), *OWN_EVENTS]
    return {each.name: {"post": _operation(each)} for each in all_of_them}


def _operation(each: EventType | OwnEvent) -> dict[str, Any]:
    return {
        "tags": ["Events"],
        "summary": each.description or each.name,
        "parameters": [
            {"name": name, "in": "header", "required": True, "schema": _STRING, "description": text}
            for name, text in _HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _envelope(each), "example": _example(each)}},
        },
        "responses": {"2XX": {"description": "Received; everything else is tried again."}},
    }


def _envelope(each: EventType | OwnEvent) -> dict[str, Any]:
    members: Mapping[str, Any] = {
        "id": _STRING,
        "type": {"const": each.name},
        "api_version": _STRING,
        "occurred_at": {"type": "string", "format": "date-time"},
        "tenant_id": {"type": ["string", "null"]},
        "identity_id": {"type": ["string", "null"]},
        "sequence": {"type": ["integer", "null"]},
        "data": dict(each.data) if isinstance(each, OwnEvent) else {},
    }
    return {"type": "object", "required": list(members), "properties": dict(members)}


def _example(each: EventType | OwnEvent) -> dict[str, Any]:
    return {
        "id": _ID,
        "type": each.name,
        "api_version": "2026-10-01",
        "occurred_at": "2026-10-01T12:00:00.000Z",
        "tenant_id": "42",
        "identity_id": None,
        "sequence": None,
        "data": {} if each.example is None else each.example,
    }
