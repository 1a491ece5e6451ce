"""Who is calling: the host's own resolver, an API key, or a session of Django's staff, in this order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from django.conf import settings as django_settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.utils.module_loading import import_string
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from .. import conf
from ..actions.actor import Actor, operator, require
from ..actions.api_keys import authenticate
from ..exceptions import ConfigurationError, InvalidActor, PermissionDenied
from .operations import Operation
from .problems import CsrfFailed

APP: Final = "webhooks_app"
REALM: Final = 'Bearer realm="webhooks"'
# RFC 6750, section 3: a request without credentials is told no error.
INVALID_TOKEN: Final = f'{REALM}, error="invalid_token"'

Identified = tuple[Any, Actor]


class _Authentication(BaseAuthentication):
    """Returns the user of Django, if there is one, and the Actor."""

    def authenticate(self, request: Request) -> Identified | None:
        """Return who calls, None when this kind of credentials is not used; raise when it is and is wrong."""
        http: HttpRequest = request._request
        found = self.identify(http)
        if found is None:
            return None
        user, actor = found
        return user, replace(actor, request_id=getattr(http, "request_id", ""))

    def authenticate_header(self, request: Request) -> str:
        """Return the WWW-Authenticate of a 401."""
        given = _bearer(request._request)
        return REALM if given is None else INVALID_TOKEN

    def identify(self, request: HttpRequest) -> Identified | None:
        """Return user and actor, without the request's id."""
        raise NotImplementedError

    def authorize(self, user: Any, actor: Actor, operation: Operation) -> None:
        """Raise PermissionDenied unless the caller may do this."""
        require(actor, operation.permission)


class ResolverAuthentication(_Authentication):
    """The callable named by WEBHOOKS["ACTOR_RESOLVER"], which knows the host's own users."""

    def identify(self, request: HttpRequest) -> Identified | None:
        """Ask the resolver; one that may have gone by the session's cookie is held to Django's CSRF rules."""
        dotted = conf.current().ACTOR_RESOLVER
        if dotted is None:
            return None
        actor = _resolved(dotted, request)
        if actor is None:
            return None
        if (
            "HTTP_AUTHORIZATION" not in request.META
            and django_settings.SESSION_COOKIE_NAME in request.COOKIES
        ):
            _enforce_csrf(request)
        return getattr(request, "user", None) or AnonymousUser(), actor


class KeyAuthentication(_Authentication):
    """`Authorization: Bearer` and an API key. Wrong, expired and revoked ones get the same answer."""

    def identify(self, request: HttpRequest) -> Identified | None:
        """Look the key up by its hash."""
        key = _bearer(request)
        if key is None:
            return None
        actor = authenticate(key)
        if actor is None:
            raise AuthenticationFailed("The API key is unknown, expired or revoked.")
        return AnonymousUser(), actor


class StaffAuthentication(_Authentication):
    """Django's session of an active staff member; CSRF as everywhere in Django."""

    def identify(self, request: HttpRequest) -> Identified | None:
        """Return the staff member as an operator; what they may do, `authorize` asks Django."""
        user = getattr(request, "user", None)
        if user is None or not (user.is_active and user.is_staff):
            return None
        _enforce_csrf(request)
        return user, operator("staff", str(user.pk))

    def authorize(self, user: Any, actor: Actor, operation: Operation) -> None:
        """Raise PermissionDenied unless Django lets the person do this in the admin too."""
        missing = [f"{APP}.{name}" for name in operation.of_staff if not _holds(user, name)]
        if missing:
            raise PermissionDenied(
                f"this needs Django's permission {' and '.join(missing)}",
                required=missing,
                fix="Ask for every permission named in `details.required`, or use an API key.",
            )


AUTHENTICATION: Final = (ResolverAuthentication, KeyAuthentication, StaffAuthentication)


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI names the keys."""

    target_class = KeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the security scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, made with the command webhooks_apikey.",
        }


class StaffScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How OpenAPI names the staff's session."""

    target_class = StaffAuthentication
    name = "staffSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """Return the security scheme."""
        return {
            "type": "apiKey",
            "in": "cookie",
            "name": django_settings.SESSION_COOKIE_NAME,
            "description": "The session of the Django admin; unsafe methods need the header X-CSRFToken.",
        }


class ResolverScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The host's own way in is the host's to describe."""

    target_class = ResolverAuthentication
    name: list[str] = []

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        """Return nothing."""
        return []

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, Any]]:
        """Return nothing."""
        return []


def _holds(user: Any, permission: str) -> bool:
    """Whether the user has one of Django's permissions; as in the admin, changing includes viewing."""
    includes = {permission, permission.replace("view_", "change_", 1)}
    return any(user.has_perm(f"{APP}.{each}") for each in includes)


def _resolved(dotted: str, request: HttpRequest) -> Actor | None:
    """Return what the host's resolver says. Raises ConfigurationError when it says what cannot be."""
    where = f'WEBHOOKS["ACTOR_RESOLVER"] ({dotted})'
    try:
        resolve: Callable[[HttpRequest], object] = import_string(dotted)
    except ImportError as error:
        raise ConfigurationError(f"{where} cannot be imported: {error}") from error
    try:
        actor = resolve(request)
    except InvalidActor as error:
        raise InvalidActor(f"{where}: {error}") from error
    if actor is None or isinstance(actor, Actor):
        return actor
    raise InvalidActor(
        f"{where} returned a {type(actor).__name__}; it must return a webhooks_app.Actor or None"
    )


def _bearer(request: HttpRequest) -> str | None:
    """Return the token of `Authorization: Bearer`, "" for a malformed one, None without that scheme."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = token.strip()
    return token if token.isascii() and token.isprintable() and len(token) <= 200 else ""


def _enforce_csrf(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _: None)
    check.process_request(request)
    reason = check.process_view(request, None, (), {})
    if reason:
        raise CsrfFailed(f"{reason}")
