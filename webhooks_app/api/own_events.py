"""The events that the sender makes itself: what their `data` holds, for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_STRING: Final = {"type": "string"}
_WEBHOOK: Final = "whk_01KB5C7Q2M8ZVJ4W6XTRNEHDG3"
_EVENT: Final = "evt_01KB5C7Q2M8ZVJ4W6XTRNEHDG3"
_MOMENT: Final = {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class OwnEvent:
    """One of them: its type, when it is made, the JSON Schema of its `data` and an example of that."""

    name: str
    description: str
    data: Mapping[str, Any]
    example: Mapping[str, Any]


def _data(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    members = {"webhook_id": _STRING, **required}
    return {"type": "object", "required": list(members), "properties": {**members, **optional}}


def _reason(*reasons: str) -> dict[str, Any]:
    return {"reason": {"type": "string", "enum": list(reasons)}}


OWN_EVENTS: Final = (
    OwnEvent("webhook.test", "Sent on request.", {}, {"message": "hello"}),
    OwnEvent(
        "webhook.ping",
        "A probe of an open breaker, when nothing else is due.",
        _data({}),
        {"webhook_id": _WEBHOOK},
    ),
    OwnEvent(
        "webhook.disabled",
        "The sender disabled a webhook.",
        _data(_reason("failing", "gone", "consumer")),
        {"webhook_id": _WEBHOOK, "reason": "gone"},
    ),
    OwnEvent(
        "webhook.warning",
        "A webhook is on its way to being disabled, or redirects.",
        _data(
            _reason("failing", "redirect"),
            failing_since=_MOMENT,
            progress={"type": "number", "minimum": 0, "maximum": 1},
            failures={"type": "integer"},
        ),
        {
            "webhook_id": _WEBHOOK,
            "reason": "failing",
            "failing_since": "2026-09-28T12:00:00.000Z",
            "progress": 0.6,
            "failures": 40,
        },
    ),
    OwnEvent(
        "webhook.recovered",
        "A delivery arrived after a warning, or the breaker closed.",
        _data(_reason("delivered", "breaker_closed")),
        {"webhook_id": _WEBHOOK, "reason": "breaker_closed"},
    ),
    OwnEvent(
        "webhook.attempt_exhausted",
        "The last attempt of a delivery's schedule failed.",
        _data(
            {"event_id": _STRING, "event_type": _STRING, "attempts": {"type": "integer"}, "error": _STRING}
        ),
        {
            "webhook_id": _WEBHOOK,
            "event_id": _EVENT,
            "event_type": "order.paid",
            "attempts": 13,
            "error": "timeout",
        },
    ),
)
