"""Actor: on whose behalf an action runs, and what that caller may do."""

from dataclasses import dataclass

from ..exceptions import PermissionDenied

EVENTS_WRITE = "events:write"
WEBHOOKS_READ = "webhooks:read"
WEBHOOKS_MANAGE = "webhooks:manage"
PERMISSIONS = (EVENTS_WRITE, WEBHOOKS_READ, WEBHOOKS_MANAGE)
SCOPES = ("platform", "partner", "tenant")

_IMPLIED = {WEBHOOKS_READ: WEBHOOKS_MANAGE}
_OPERATORS = frozenset({"staff", "command", "system"})


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who acts.

    ``kind``         ``key``, ``staff``, ``command`` or ``system`` (a host's resolver may add its own)
    ``id``           who it is within the kind; goes into the audit
    ``scope``        what is visible: ``platform`` all, ``partner`` its tenants' too, ``tenant`` its own
    ``scope_id``     the partner or tenant; None for the platform
    ``environment``  ``live`` or ``test`` when the actor is bound to one; None = both
    ``permissions``  names such as ``webhooks:manage``
    ``request_id``   of the request being served, for the audit
    """

    kind: str
    id: str
    scope: str = "platform"
    scope_id: str | None = None
    environment: str | None = None
    permissions: frozenset[str] = frozenset()
    request_id: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a scope that would see nobody's or everybody's rows by mistake."""
        if self.scope not in SCOPES or (self.scope == "platform") != (not self.scope_id):
            raise ValueError("a tenant or partner actor needs a scope_id, a platform actor has none")

    def may(self, permission: str) -> bool:
        """Whether the actor has ``permission``; managing webhooks includes reading them."""
        return permission in self.permissions or _IMPLIED.get(permission) in self.permissions

    @property
    def is_operator(self) -> bool:
        """Whether this is the operator (staff, a command, the system) and not a customer's key."""
        return self.kind in _OPERATORS and self.scope == "platform"


def operator(kind: str, actor_id: str, *, request_id: str = "") -> Actor:
    """Return an actor of the operator's: sees all and may do everything."""
    return Actor(kind, actor_id, permissions=frozenset(PERMISSIONS), request_id=request_id)


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
