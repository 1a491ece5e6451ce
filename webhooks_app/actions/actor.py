"""Actor: on whose behalf an action runs, and what that caller may do."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ..exceptions import InvalidActor, PermissionDenied

EVENTS_WRITE = "events:write"
WEBHOOKS_READ = "webhooks:read"
WEBHOOKS_MANAGE = "webhooks:manage"
PERMISSIONS = (EVENTS_WRITE, WEBHOOKS_READ, WEBHOOKS_MANAGE)
SCOPES = ("platform", "partner", "tenant")
ENVIRONMENTS = (None, "live", "test")
# As the columns of the audit are.
MAX_KIND, MAX_ID = 16, 128

_IMPLIED = {WEBHOOKS_READ: WEBHOOKS_MANAGE}
_OPERATORS = frozenset({"staff", "command", "system"})


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts.

    ``kind``         ``key``, ``staff``, ``command`` or ``system`` (a host's resolver may add its own);
                     goes into the audit, so at most 16 characters
    ``id``           who it is within the kind; goes into the audit, so at most 128 characters
    ``scope``        what is visible: ``platform`` all, ``partner`` its tenants' too, ``tenant`` its own
    ``scope_id``     the partner or tenant; None for the platform
    ``environment``  ``live`` or ``test`` when the actor is bound to one; None = both
    ``permissions``  names such as ``webhooks:manage``
    ``request_id``   of the request being served, for the audit
    """

    kind: str
    id: str
    scope: str
    scope_id: str | None = None
    environment: str | None = None
    permissions: AbstractSet[str] = frozenset()
    request_id: str = ""

    def __post_init__(self) -> None:
        """Raise InvalidActor for what the audit cannot hold, or would see or do more than was meant."""
        _check_text("kind", self.kind, MAX_KIND)
        _check_text("id", self.id, MAX_ID)
        self._check_scope()
        if self.environment not in ENVIRONMENTS:
            raise InvalidActor(f"environment must be live, test or None, not {self.environment!r:.40}")
        # A text would hold every permission whose name is a part of it.
        if not isinstance(self.permissions, AbstractSet) or not all(
            isinstance(each, str) for each in self.permissions
        ):
            raise InvalidActor("permissions must be a set of names")
        object.__setattr__(self, "permissions", frozenset(self.permissions))

    def _check_scope(self) -> None:
        if self.scope not in SCOPES:
            raise InvalidActor(f"scope must be one of {', '.join(SCOPES)}, not {self.scope!r:.40}")
        if self.scope != "platform":
            _check_text("scope_id of a tenant or partner", self.scope_id, MAX_ID)
        elif self.scope_id is not None:
            raise InvalidActor("scope_id must be None when the scope is platform")

    def may(self, permission: str) -> bool:
        """Whether the actor has ``permission``; managing webhooks includes reading them."""
        return permission in self.permissions or _IMPLIED.get(permission) in self.permissions

    @property
    def is_operator(self) -> bool:
        """Whether this is the operator (staff, a command, the system) and not a customer's key."""
        return self.kind in _OPERATORS and self.scope == "platform"


def operator(kind: str, actor_id: str, *, request_id: str = "") -> Actor:
    """Return an actor of the operator's: sees all and may do everything."""
    return Actor(kind, actor_id, "platform", permissions=frozenset(PERMISSIONS), request_id=request_id)


def _check_text(name: str, value: object, most: int) -> None:
    """Raise InvalidActor for what is no text of 1 to `most` characters that every database can hold."""
    if not isinstance(value, str) or not 1 <= len(value) <= most:
        told = f"{len(value)} characters" if isinstance(value, str) else f"a {type(value).__name__}"
        raise InvalidActor(f"{name} must be a text of 1 to {most} characters, not {told}")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidActor(f"{name} must not hold NUL or half of a surrogate pair")


def require(actor: Actor, permission: str) -> None:
    """Raise PermissionDenied unless the actor has ``permission``."""
    if not actor.may(permission):
        raise PermissionDenied(
            f"this needs the permission {permission}",
            required=[permission],
            fix=f"Use a key that has {permission}.",
        )


def require_operator(actor: Actor) -> None:
    """Raise PermissionDenied unless the actor is the operator: keys neither make keys nor run maintenance."""
    if not actor.is_operator:
        raise PermissionDenied("only the operator may do this", fix="Use the admin or a management command.")
