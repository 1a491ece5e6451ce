"""Every exception becomes a problem+json answer (RFC 9457) here, and nowhere else."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, singledispatch
from typing import Any, Final

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.urls import NoReverseMatch, reverse
from rest_framework import exceptions as drf
from rest_framework.response import Response
from rest_framework.settings import api_settings
from rest_framework.views import set_rollback

from .. import exceptions
from .errors import CATALOGUE

logger = logging.getLogger("webhooks_app.api")

MEDIA_TYPE: Final = "application/problem+json"
MAX_ERRORS: Final = 100
_SHOWN: Final = 64

Errors = Sequence[tuple[str, str]]


class CsrfFailed(drf.APIException):
    """A session was used without its CSRF token."""


class LengthRequired(drf.APIException):
    """A body came in chunks; how much of it there is was not said (RFC 9110, section 15.5.12)."""


class PayloadTooLarge(drf.APIException):
    """The body is above the limit of its path, in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit


class CursorExpired(drf.APIException):
    """The cursor is too old to be followed."""


class InProgress(drf.APIException):
    """A request with the same Idempotency-Key is being carried out."""


class PreconditionFailed(drf.APIException):
    """The object is not as `If-Match` says."""


class RateLimited(drf.APIException):
    """The caller has asked too often; `bucket` is the full one."""

    def __init__(self, bucket: str, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.bucket = bucket
        self.headers = headers


class RouteNotFound(drf.APIException):
    """No path of the API matches."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What an answer says; whatever is left out comes from the catalogue."""

    code: str
    detail: str = ""
    fix: str = ""
    errors: Errors = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """Return the answer to a request that ended in `error`; failures of ours are logged and signalled."""
    set_rollback()
    request: HttpRequest = context["request"]._request
    problem = problem_of(error)
    if CATALOGUE[problem.code].status >= 500:
        _report(error, request)
    return answer(problem, request)


def answer(problem: Problem, request: HttpRequest) -> Response:
    """Return the problem as a response."""
    kind = CATALOGUE[problem.code]
    body = {
        "type": _type_uri(problem.code),
        "title": kind.title,
        "status": kind.status,
        "detail": problem.detail or f"{kind.title}.",
        "code": problem.code,
        "retryable": kind.retryable,
        "fix": problem.fix or kind.fix,
        "request_id": getattr(request, "request_id", ""),
        "errors": [{"path": path, "message": message} for path, message in problem.errors[:MAX_ERRORS]],
        "details": dict(problem.details),
    }
    return Response(body, status=kind.status, headers=problem.headers, content_type=MEDIA_TYPE)


def shown(name: object) -> str:
    """Return a field's name as a step of a path: short and printable, whatever the caller sent."""
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in str(name)[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


@singledispatch
def problem_of(error: Exception) -> Problem:
    """Return what to tell the caller about `error`; unknown ones are ours and say nothing."""
    return Problem("internal_error")


@problem_of.register
def _action(error: exceptions.ActionError) -> Problem:
    code = error.code if error.code in CATALOGUE else _general_code(error)
    return Problem(code, f"{error.message}", error.fix)


@problem_of.register
def _invalid(error: exceptions.InvalidRequest) -> Problem:
    code = error.code if error.code in CATALOGUE else "invalid_request"
    return _refused([(path.lstrip("/"), message) for path, message in error.errors], code=code, fix=error.fix)


@problem_of.register
def _permission(error: exceptions.PermissionDenied) -> Problem:
    return Problem("permission_denied", error.message, error.fix, details={"required": error.required})


@problem_of.register
def _event(error: exceptions.InvalidEvent) -> Problem:
    return _refused([(error.path.lstrip("/"), error.message)])


@problem_of.register
def _large_event(error: exceptions.EventTooLarge) -> Problem:
    return _refused([(error.path.lstrip("/"), error.message)], code="payload_too_large")


@problem_of.register
def _large(error: PayloadTooLarge) -> Problem:
    return Problem("payload_too_large", f"The body has more than {error.limit} bytes.")


@problem_of.register(drf.ValidationError)
def _validation(error: Any) -> Problem:
    return _refused(list(_flatten(error.detail, ())))


@problem_of.register(drf.ParseError)
def _parse(error: Any) -> Problem:
    return _refused([("", str(error.detail))])


@problem_of.register(UnreadablePostError)
def _cut(error: Exception) -> Problem:
    return _refused([("", "the body ended early")])


@problem_of.register(RequestDataTooBig)
def _host_limit(error: Exception) -> Problem:
    return Problem("payload_too_large", "The body is above this site's limit.")


@problem_of.register(SuspiciousOperation)
@problem_of.register(BadRequest)
@problem_of.register(MultiPartParserError)
def _suspicious(error: Exception) -> Problem:
    return Problem("invalid_request", "The request cannot be read.")


@problem_of.register(drf.NotAuthenticated)
@problem_of.register(drf.AuthenticationFailed)
def _unauthenticated(error: Any) -> Problem:
    headers = {"WWW-Authenticate": getattr(error, "auth_header", "Bearer")}
    return Problem("unauthenticated", f"{error.detail}", headers=headers)


@problem_of.register
def _csrf(error: CsrfFailed) -> Problem:
    return Problem("csrf_failed", f"{error.detail}")


@problem_of.register
def _in_progress(error: InProgress) -> Problem:
    return Problem("request_in_progress", headers={"Retry-After": "1"})


@problem_of.register
def _rate(error: RateLimited) -> Problem:
    return Problem("rate_limited", details={"bucket": error.bucket}, headers=error.headers)


# These say all by their code.
_PLAIN: Final[Mapping[type[Exception], str]] = {
    exceptions.ConfigurationError: "misconfigured",
    drf.MethodNotAllowed: "method_not_allowed",
    drf.UnsupportedMediaType: "unsupported_media_type",
    drf.PermissionDenied: "permission_denied",
    DjangoPermissionDenied: "permission_denied",
    drf.NotFound: "not_found",
    Http404: "not_found",
    LengthRequired: "length_required",
    CursorExpired: "cursor_expired",
    PreconditionFailed: "precondition_failed",
    RouteNotFound: "route_not_found",
}
for _kind, _code in _PLAIN.items():
    problem_of.register(_kind, partial(lambda code, error: Problem(code), _code))


@problem_of.register(OperationalError)
@problem_of.register(InterfaceError)
def _database(error: Exception) -> Problem:
    return Problem("unavailable", headers={"Retry-After": "5"})


_GENERAL: Final = (
    (exceptions.NotFound, "not_found"),
    (exceptions.Conflict, "conflict"),
    (exceptions.LimitReached, "webhook_limit_reached"),
)


def _general_code(error: exceptions.ActionError) -> str:
    """Return the code of the error's family, for a code that the catalogue does not have."""
    return next((code for kind, code in _GENERAL if isinstance(error, kind)), "invalid_request")


def _refused(errors: Errors, *, code: str = "invalid_request", fix: str = "") -> Problem:
    path, message = errors[0]
    return Problem(code, f"{path}: {message}" if path else message, fix, errors)


def _flatten(detail: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield path and message of every leaf of a serializer's errors."""
    if isinstance(detail, Mapping):
        for name, below in detail.items():
            step = () if name == api_settings.NON_FIELD_ERRORS_KEY else (shown(name),)
            yield from _flatten(below, path + step)
    elif isinstance(detail, list):
        for index, below in enumerate(detail):
            step = () if isinstance(below, str) else (str(index),)
            yield from _flatten(below, path + step)
    else:
        yield "/".join(path), str(detail)


def _type_uri(code: str) -> str:
    """Return where the code is explained: an anchor of the documentation page, relative to this host."""
    try:
        return f"{reverse('webhooks_app:docs')}#{code}"
    except NoReverseMatch:
        return "about:blank"


def _report(error: Exception, request: HttpRequest) -> None:
    request_id = getattr(request, "request_id", "")
    why = f": {error}" if isinstance(error, exceptions.ConfigurationError) else ""
    logger.error("request %s failed%s", request_id, why, exc_info=error, extra={"request_id": request_id})
    got_request_exception.send(sender=None, request=request)
