"""The view that all others are: who may call, what is read, how failures look.

The host's settings of DRF play no part in it.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.http import HttpRequest, HttpResponseBase
from django.utils import translation
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ...actions.actor import Actor
from ...ids import new_id
from .. import idempotency, problems, rate_limits
from ..authentication import AUTHENTICATION
from ..idempotency import Repeated
from ..operations import NoQuery, Operation, Operations
from ..parsing import StrictJSONParser, check_body
from ..rendering import AlwaysJson, ApiRenderer
from ..schema import OperationSchema

BODY_LIMIT = 256 * 1024
_WITH_BODY = frozenset({"POST", "PATCH"})


class BaseView(APIView):
    """A view whose every answer has a Request-Id and whose every failure is a problem."""

    authentication_classes: ClassVar[Any] = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = (StrictJSONParser,)
    renderer_classes = (ApiRenderer,)
    content_negotiation_class = AlwaysJson
    metadata_class = None
    versioning_class = None
    schema: Any = None
    http_method_names: ClassVar[list[str]] = ["get", "head", "post", "patch", "delete"]

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., HttpResponseBase]:
        """Return the view, kept out of ATOMIC_REQUESTS: actions hold their own, short transactions."""
        view = super().as_view(**initkwargs)
        view._non_atomic_requests = set(connections)
        return view  # type: ignore[no-any-return]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer in English: messages are for programs' authors and must not change with the visitor."""
        with translation.override("en"):
            response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Give the request its id."""
        request.request_id = new_id("req")  # type: ignore[attr-defined]
        return super().initialize_request(request, *args, **kwargs)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Name the request in its answer, and let nobody keep it."""
        response = super().finalize_response(request, response, *args, **kwargs)
        response["Request-Id"] = request._request.request_id
        response.setdefault("Cache-Control", "no-store")
        return response

    def get_exception_handler(self) -> Any:
        """Return the one handler."""
        return problems.handle


class ApiView(BaseView):
    """A view whose `operations` say, per method, who may call it and what it takes."""

    authentication_classes = AUTHENTICATION
    schema = OperationSchema()
    operations: ClassVar[Operations] = {}
    _claim: idempotency.Claim | None = None
    _standing: rate_limits.Standing | None = None

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, and let go of what was taken for it."""
        with ExitStack() as self._held:
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, then refuse what the method or the caller may not do, before anything is read."""
        super().initial(request, *args, **kwargs)
        if request.auth is None:
            raise drf.NotAuthenticated
        if request.method not in self.allowed_methods:
            raise drf.MethodNotAllowed(request.method)
        self._standing = rate_limits.count(self.actor, self.operation)
        self._authorize(request)
        if request.method in _WITH_BODY:
            check_body(request, self.body_limit(), self.media_types())
        self._query = self._read_query()
        if request.method == "POST" and (key := idempotency.key_of(request._request)) is not None:
            self._claim_key(key)

    def handle_exception(self, exc: Exception) -> HttpResponseBase:
        """Return the answer to a failure, or the one that the same request got before."""
        response: HttpResponseBase = (
            exc.response if isinstance(exc, Repeated) else super().handle_exception(exc)
        )
        return response

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        """Tell the caller how it stands, and keep the answer for those who repeat the request."""
        response = super().finalize_response(request, response, *args, **kwargs)
        for name, value in (self._standing.headers() if self._standing else {}).items():
            response.setdefault(name, value)
        if self._claim is not None:
            self._claim.settle(response)
        return response

    @property
    def actor(self) -> Actor:
        """The caller."""
        actor: Actor = self.request.auth
        return actor

    @property
    def operation(self) -> Operation:
        """The description of what is being done."""
        return self.operations["GET" if self.request.method == "HEAD" else self.request.method]

    @property
    def query(self) -> Mapping[str, Any]:
        """The query parameters, checked."""
        return self._query

    def body_limit(self) -> int:
        """Return the largest body taken, in bytes."""
        return BODY_LIMIT

    def media_types(self) -> frozenset[str]:
        """Return what the body may be."""
        return self.operation.media_types

    def payload(self) -> Any:
        """Return the body as parsed, unchecked."""
        return self.request.data

    def read(self, *, partial: bool = False) -> dict[str, Any]:
        """Return the body's values. Raises ValidationError naming every wrong one."""
        if self.operation.body is None:
            raise ImproperlyConfigured(f"{self.operation.id} takes no body")
        given = self.payload()
        if not isinstance(given, dict):
            raise drf.ValidationError("Must be a JSON object.")
        serializer = self.operation.body(data=given, partial=partial)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def answer(self, value: Any, **context: Any) -> Response:
        """Return the success with `value` in the operation's form."""
        if self.operation.answer is None:
            return Response(status=self.operation.status)
        return Response(self.operation.answer(value, context=context).data, status=self.operation.status)

    def _authorize(self, request: Request) -> None:
        how: Any = request.successful_authenticator
        how.authorize(request.user, self.actor, self.operation)

    def _claim_key(self, key: str) -> None:
        claim = idempotency.claim(
            key, self.request._request, self.actor, operation=self.operation, payload=self.payload()
        )
        self._held.enter_context(claim.changes)
        self._claim = claim

    def _read_query(self) -> Mapping[str, Any]:
        given = self.request.query_params
        repeated = {name: ["Must be given once."] for name in given if len(given.getlist(name)) > 1}
        if repeated:
            raise drf.ValidationError(repeated)
        serializer = (self.operation.query or NoQuery)(data=given.dict())
        serializer.is_valid(raise_exception=True)
        values: Mapping[str, Any] = serializer.validated_data
        return values


class RouteNotFound(BaseView):
    """Everything under /v1/ that is no path."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse, whatever the method and whoever calls."""
        super().initial(request, *args, **kwargs)
        raise problems.RouteNotFound
