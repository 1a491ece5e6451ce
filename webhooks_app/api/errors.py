"""The catalogue of error codes: what every `code` of an answer means, as data.

`docs/reference/errors.md` is `as_markdown()`, written to a file; a test holds the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row: HTTP status, title, what the caller can do, whether the same request may succeed later."""

    status: int
    title: str
    fix: str
    retryable: bool = False


_SUPPORT: Final = "If it lasts, tell the operator the request_id."

CATALOGUE: Final[Mapping[str, ErrorKind]] = MappingProxyType(
    {
        "invalid_request": ErrorKind(
            400, "The request is not valid", "Correct what `errors` names and send the request again."
        ),
        "invalid_idempotency_key": ErrorKind(
            400,
            "The Idempotency-Key is not valid",
            "Send 1 to 255 printable ASCII characters, such as a UUID, or leave the header out.",
        ),
        "unauthenticated": ErrorKind(
            401,
            "The caller is not known",
            "Send `Authorization: Bearer <API key>` with a key that is neither expired nor revoked.",
        ),
        "permission_denied": ErrorKind(
            403,
            "The caller lacks a permission",
            "Use a key that has every permission named in `details.required`.",
        ),
        "csrf_failed": ErrorKind(
            403,
            "The CSRF token is missing or wrong",
            "Send the CSRF token of the session in the header X-CSRFToken, or use an API key.",
        ),
        "route_not_found": ErrorKind(
            404,
            "There is no such path",
            "Compare the path with `/v1/openapi.json`; paths do not end in a slash.",
        ),
        "not_found": ErrorKind(404, "There is no such object", "Check the id and the key's scope."),
        "webhook_not_found": ErrorKind(
            404,
            "There is no such webhook",
            "Check the id, and that the key's scope and environment cover it.",
        ),
        "event_not_found": ErrorKind(
            404, "There is no such event", "Check the id, and that the key's scope and environment cover it."
        ),
        "delivery_not_found": ErrorKind(
            404,
            "There is no such delivery",
            "Check the id, and that the key's scope and environment cover it.",
        ),
        "attempt_not_found": ErrorKind(
            404,
            "There is no such attempt",
            "Check the id, and that the key's scope and environment cover it.",
        ),
        "job_not_found": ErrorKind(
            404, "There is no such job", "Check the id, and that the key's scope and environment cover it."
        ),
        "api_key_not_found": ErrorKind(404, "There is no such API key", "Check the id."),
        "tenant_not_found": ErrorKind(
            404, "There is no such tenant", "Name a tenant that the key's scope covers."
        ),
        "partner_not_found": ErrorKind(
            404, "There is no such partner", "Name the partner that the key belongs to."
        ),
        "method_not_allowed": ErrorKind(
            405, "The path does not take this method", "Use a method that the header Allow names."
        ),
        "conflict": ErrorKind(
            409,
            "The object's state forbids this now",
            "Read the object, then decide whether to repeat the request.",
        ),
        "deliveries_pending": ErrorKind(
            409,
            "Deliveries to the old URL are still open",
            "Wait until they have ended, or send `retarget_pending: true` to move them to the new URL.",
        ),
        "delivery_in_flight": ErrorKind(
            409, "A request of this delivery is running", "Repeat the request in a minute.", retryable=True
        ),
        "delivery_ended": ErrorKind(
            409, "The delivery has ended", "Nothing is left to cancel; replay it to have it sent again."
        ),
        "event_unavailable": ErrorKind(
            409,
            "The event can no longer be sent",
            "Nothing: it is expired, past its retention, or was erased.",
        ),
        "breaker_open": ErrorKind(
            409,
            "The webhook's circuit breaker is open",
            "Wait until its receiver answers again; its health says when that is tried.",
            retryable=True,
        ),
        "job_ended": ErrorKind(
            409, "The job has ended", "Nothing is left to cancel; read the job to see what it did."
        ),
        "webhook_disabled": ErrorKind(
            409, "The webhook is disabled", 'Enable it with `PATCH {"enabled": true}` first.'
        ),
        "tenant_suspended": ErrorKind(
            409,
            "The webhook's tenant or partner is suspended",
            "Wait until the operator ends the suspension; what is held meanwhile is sent then.",
        ),
        "too_many_secrets": ErrorKind(
            409,
            "As many secrets sign as may",
            "Wait until an overlap has ended, or rotate with `overlap_hours: 0`, which ends the older ones.",
        ),
        "event_id_conflict": ErrorKind(
            409,
            "The event_id names an event of the other environment",
            "Use other ids in the test environment.",
        ),
        "idempotency_conflict": ErrorKind(
            409,
            "The Idempotency-Key belongs to another request",
            "Send a new key with every new request, and the same one only with the very same request.",
        ),
        "request_in_progress": ErrorKind(
            409,
            "The same request is being carried out",
            "Repeat it with the same Idempotency-Key after the pause that Retry-After names.",
            retryable=True,
        ),
        "cursor_expired": ErrorKind(
            410,
            "The cursor is more than 24 hours old",
            "Read the list again from its first page.",
        ),
        "length_required": ErrorKind(
            411,
            "The length of the body is not given",
            "Send the header Content-Length instead of a chunked body.",
        ),
        "precondition_failed": ErrorKind(
            412,
            "The object has changed since",
            "Read it again and decide anew; then send its new ETag as If-Match.",
        ),
        "payload_too_large": ErrorKind(
            413, "The body is too large", "Send less; put large content where the event can link to it."
        ),
        "unsupported_media_type": ErrorKind(
            415, "The body is not JSON", "Send `Content-Type: application/json` and no content encoding."
        ),
        "webhook_limit_reached": ErrorKind(
            422, "The scope has as many webhooks as it may have", "Delete a webhook that is no longer used."
        ),
        "rate_limited": ErrorKind(
            429,
            "Too many requests in this minute",
            "Repeat the request after the pause that Retry-After names; `details.bucket` says what is full.",
            retryable=True,
        ),
        "internal_error": ErrorKind(
            500, "The server failed", f"Repeat the request later. {_SUPPORT}", retryable=True
        ),
        "misconfigured": ErrorKind(
            500,
            "The server is set up wrongly",
            "Tell the operator the request_id: the log says what is wrong.",
        ),
        "unavailable": ErrorKind(
            503,
            "The database is not available",
            f"Repeat the request after a pause. {_SUPPORT}",
            retryable=True,
        ),
    }
)

_INTRODUCTION: Final = """# Errors of the REST API

Every answer that is not a success is `application/problem+json` (RFC 9457) with the members `type`, `title`,
`status` and `detail`, and these:

| member | meaning |
|---|---|
| `code` | the word to decide by; one of the table below, and new ones may come |
| `retryable` | whether the same request may succeed later |
| `fix` | what the caller can do |
| `request_id` | also in the header `Request-Id`; tell it to the operator |
| `errors` | what is wrong with the request, as `{path, message}`: `headers/0/name`; an empty list elsewhere |
| `details` | more for programs, such as `{"required": ["webhooks:manage"]}`; an empty object elsewhere |

A webhook or event that does not exist and one that belongs to somebody else get the same answer.

| status | `code` | retryable | meaning | fix |
|---|---|---|---|---|
"""


def as_markdown() -> str:
    """Return the reference page of the errors."""
    rows = (
        f"| {kind.status} | `{code}` | {'yes' if kind.retryable else 'no'} | {kind.title} | {kind.fix} |\n"
        for code, kind in CATALOGUE.items()
    )
    return _INTRODUCTION + "".join(rows)
