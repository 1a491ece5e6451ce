"""Operation: one method of one path, described once; the view obeys it and the OpenAPI document shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rest_framework.serializers import Serializer

from ..actions.actor import EVENTS_WRITE, WEBHOOKS_MANAGE, WEBHOOKS_READ
from .parsing import MEDIA_TYPE
from .strict import Strict

_ALWAYS = (
    "invalid_request",
    "unauthenticated",
    "permission_denied",
    "rate_limited",
    "internal_error",
    "misconfigured",
    "unavailable",
)
_WITH_BODY = ("length_required", "payload_too_large", "unsupported_media_type")
# Being staff only opens the admin's door; what a person may do is said by Django's model permissions.
_STAFF = {
    EVENTS_WRITE: ("add_event",),
    WEBHOOKS_READ: ("view_endpoint",),
    WEBHOOKS_MANAGE: ("change_endpoint",),
}
_POST = ("invalid_idempotency_key", "idempotency_conflict", "request_in_progress")


class NoQuery(Strict):
    """No query parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a method takes and gives.

    ``id``           OpenAPI's operationId
    ``permission``   what the caller must hold
    ``staff``        what a session of the staff must hold instead, all of it: Django's model permissions,
                     those that the admin asks for; by default what `permission` stands for
    ``body``         serializer of the request's JSON object; None = the method has no body
    ``query``        serializer of the query parameters; None = it has none
    ``answer``       serializer of the answer to a success; None = no content
    ``also``         serializer of what some requests get instead
    ``status``       HTTP status of a success
    ``errors``       codes of the catalogue beyond those that every operation may answer
    ``bodies``       media type -> serializer of what else the method takes besides ``body``, which is JSON
    ``etag``         the answer has an ETag, and the request may set a condition with it
    ``costly``       counted in a bucket of its own besides, with a lower limit
    ``shown_once``   members of the answer that a repeated request does not get again
    """

    id: str
    summary: str
    permission: str
    description: str = ""
    tag: str
    body: type[Strict] | None = None
    query: type[Strict] | None = None
    answer: type[Serializer] | None = None
    also: type[Serializer] | None = None
    status: int = 200
    errors: tuple[str, ...] = ()
    bodies: Mapping[str, type[Serializer]] = field(default_factory=dict)
    etag: bool = False
    costly: bool = False
    shown_once: frozenset[str] = frozenset()
    staff: tuple[str, ...] = ()

    @property
    def of_staff(self) -> tuple[str, ...]:
        """Django's permissions that a session of the staff needs."""
        return self.staff or _STAFF[self.permission]

    @property
    def media_types(self) -> frozenset[str]:
        """What the body may be."""
        return frozenset({MEDIA_TYPE, *self.bodies})

    def all_errors(self, method: str) -> tuple[str, ...]:
        """Every code that the operation may answer, as the method it has."""
        return _ALWAYS + self.errors + (_WITH_BODY if self.body else ()) + (_POST if method == "POST" else ())


Operations: TypeAlias = Mapping[str, Operation]
