"""The OpenAPI document, made from what the views themselves obey; a host needs no setting for it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.settings import SPECTACULAR_DEFAULTS, patched_settings, spectacular_settings
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, PolymorphicProxySerializer

from .. import __version__
from .errors import CATALOGUE
from .idempotency import HEADER, MAX_KEY, PATTERN
from .operations import Operation
from .parsing import MEDIA_TYPE as JSON
from .problems import MEDIA_TYPE
from .serializers.problem import Problem
from .stored_answers import REPLAYED
from .strict import Strict

TAGS: Final = {
    "Events": "Facts of the host's business, and how they enter the sender.",
    "Webhooks": "Where events go: an endpoint of a tenant, of a partner, or of the platform.",
    "Deliveries": "What became of events at a webhook, and the evidence of every request.",
    "Jobs": "Recovery in the background, and how far it is.",
    "Audit": "Who did what to whom.",
}
_OWN: Final = {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Webhooks",
    "VERSION": __version__,
    "DESCRIPTION": "Register webhooks, send events, read what became of them. Unknown members of answers and "
    "unknown values of enumerations may appear at any time; clients ignore them.",
    "TAGS": [{"name": name, "description": text} for name, text in TAGS.items()],
    "SCHEMA_PATH_PREFIX": "/v1",
    "POSTPROCESSING_HOOKS": [
        "webhooks_app.api.schema.with_plain_enums",
        "webhooks_app.api.examples.with_examples",
        "webhooks_app.api.links.with_links",
    ],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENFORCE_NON_BLANK_FIELDS": True,
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
}
# A host's own choices for its own document must not leak into this one.
_SETTINGS: Final = {
    name: value
    for name, value in {**SPECTACULAR_DEFAULTS, **_OWN}.items()
    if not name.startswith("SERVE_") and name != "DEFAULT_GENERATOR_CLASS"
}
_lock = threading.Lock()
_made: list[dict[str, Any]] = []


def document() -> Mapping[str, Any]:
    """Return the OpenAPI 3.1 document; made once, for drf-spectacular's settings are global meanwhile."""
    with _lock:
        if not _made:
            with patched_settings(_SETTINGS):
                generator = SchemaGenerator(urlconf="webhooks_app.urls")  # type: ignore[no-untyped-call]
                _made.append(generator.get_schema(request=None, public=True))  # type: ignore[no-untyped-call]
    return _made[0]


def with_plain_enums(result: Any, **_: Any) -> Any:
    """Undo what hides the enumerations from a host's own document."""
    if isinstance(result, dict):
        plain = {name: with_plain_enums(each) for name, each in result.items()}
        inner = plain.get("allOf", [{}])[0]
        if "enum" in inner:
            del plain["allOf"]
            return {**inner, **plain}
        return plain
    return [with_plain_enums(each) for each in result] if isinstance(result, list) else result


class OperationSchema(AutoSchema):
    """Reads a view's `operations`."""

    def get_operation_id(self) -> str:
        """Return the declared id."""
        return self._operation.id

    def get_summary(self) -> str:
        """Return the declared summary."""
        return self._operation.summary

    def get_description(self) -> str:
        """Return the declared description, and the permission it takes."""
        staff = " and ".join(f"`{name}`" for name in self._operation.of_staff)
        needs = (
            f"Needs the permission `{self._operation.permission}`; a session of the staff, Django's {staff}."
        )
        return f"{self._operation.description} {needs}".strip()

    def get_tags(self) -> list[str]:
        """Return the declared tag."""
        return [self._operation.tag]

    def get_request_serializer(self) -> Any:
        """Return the declared bodies, by media type."""
        operation = self._operation
        return {JSON: operation.body, **operation.bodies} if operation.body else None

    def get_override_parameters(self) -> list[Any]:
        """Return the declared query parameters, and the header of every answer."""
        query = [self._operation.query] if self._operation.query else []
        more = _IDEMPOTENCY if self.method == "POST" else ()
        return [*query, _REQUEST_ID, *_RATES, *more, *self._conditions()]

    def get_response_serializers(self) -> Any:
        """Return the success and every error the operation may answer, by status."""
        operation = self._operation
        success = OpenApiResponse(_answer(operation), description="Done.")
        unchanged = {304: OpenApiResponse(description="Unchanged.")} if self._is_conditional_read() else {}
        return {operation.status: success, **unchanged, **_failures(operation.all_errors(self.method))}

    def _map_serializer_field(self, field: Any, direction: Any, bypass_extensions: bool = False) -> Any:
        """Hide enumerations one level down: a host's document would name them all, and warn of each clash."""
        found = super()._map_serializer_field(field, direction, bypass_extensions)  # type: ignore[no-untyped-call]
        if isinstance(found, dict) and found.pop("x-spec-enum-id", None):
            inner = {name: found.pop(name) for name in ("enum", "type") if name in found}
            return {"allOf": [inner], **found}
        return found

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> Any:
        """Say what is true of a body as a whole, such as that unknown members are refused."""
        found = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if isinstance(serializer, Strict) and direction == "request":
            found.update(_known(serializer.keywords))
        return found

    def _is_conditional_read(self) -> bool:
        return bool(self._operation.etag and self.method == "GET")

    def _conditions(self) -> list[OpenApiParameter]:
        if not self._operation.etag:
            return []
        name = {"GET": "If-None-Match", "PATCH": "If-Match", "DELETE": "If-Match"}.get(self.method)
        conditions = [_header(name, str, _CONDITIONS[name])] if name else []
        answered = [_header("ETag", str, _ETAG, response=[self._operation.status])]
        return conditions + (answered if self.method != "DELETE" else [])

    @property
    def _operation(self) -> Operation:
        operation: Operation = self.view.operations[self.method]
        return operation


_CONDITIONS: Final = {
    "If-Match": "ETags: act only if the object has one of them, else 412; `*`: if it is there.",
    "If-None-Match": "ETags: 304 without a body if the object has one of them.",
}
_ETAG: Final = "Another one after every change."


def _header(
    name: str, kind: Any, description: str, *, response: bool | list[int] = False
) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.HEADER, description=description, response=response)


_RATES: Final = tuple(
    _header(name, int, text, response=True)
    for name, text in (
        ("RateLimit-Limit", "Requests a minute in the caller's fullest bucket."),
        ("RateLimit-Remaining", "How many of them are left."),
        ("RateLimit-Reset", "Seconds until the next minute begins."),
    )
)
_REQUEST_ID: Final = _header("Request-Id", str, "Names this request; tell it to the operator.", response=True)
_IDEMPOTENCY: Final = (
    _header(
        HEADER,
        {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": f"^{PATTERN}$"},
        "Makes it safe to repeat the request for 30 days: it acts once.",
    ),
    _header(REPLAYED, str, "`true` on the answer to a repeated request.", response=True),
)


def _answer(operation: Operation) -> Any:
    if operation.also is None or operation.answer is None:
        return operation.answer
    name = f"{operation.answer.__name__}Or{operation.also.__name__}"
    return PolymorphicProxySerializer(name, [operation.answer, operation.also], resource_type_field_name=None)


def _failures(errors: Sequence[str]) -> dict[tuple[int, str], OpenApiResponse]:
    codes: dict[int, list[str]] = {}
    for code in errors:
        codes.setdefault(CATALOGUE[code].status, []).append(f"`{code}`")
    return {
        (status, MEDIA_TYPE): OpenApiResponse(Problem, description=", ".join(named))
        for status, named in sorted(codes.items())
    }


def _known(keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out of a host's own document of OpenAPI 3.0 what that version does not know."""
    is_older = str(spectacular_settings.OAS_VERSION).startswith("3.0")
    return {} if is_older and "patternProperties" in keywords else keywords
