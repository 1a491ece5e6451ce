"""Which endpoints get an event: scope, environment, event type, identity. Isolation fails closed.

Whatever is missing, unknown or contradictory on either side matches nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Scope = Literal["tenant", "partner", "platform"]

MAX_PATTERNS = 100
MAX_PATTERN_LENGTH = 128
EVERYTHING = "*"

# Sent to one endpoint on request; never an event that others should have had.
NEVER_FANNED_OUT = frozenset({"webhook.test", "webhook.ping"})
# About an endpoint; for those who run it, and for its tenant only where the policy says so.
OPERATIONAL = frozenset(
    {"webhook.attempt_exhausted", "webhook.disabled", "webhook.recovered", "webhook.warning"}
)

# Standard Webhooks, "Event types".
EVENT_TYPE = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*")


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What matching needs to know of an event.

    ``partner_id`` is the partner of the event's tenant. ``about`` is the endpoint an operational event is
    about (the same kind of id as ``Subscription.endpoint_id``), which never hears of itself;
    ``notify_tenant`` lets the tenant's other endpoints have it.
    """

    type: str
    tenant_id: str | None
    partner_id: str | None
    identity_id: str | None
    environment: str
    about: str = ""
    notify_tenant: bool = False


@dataclass(frozen=True, slots=True)
class Subscription:
    """What an endpoint wants, taken apart once so that ``wants`` is cheap.

    ``events`` is ``("*",)``, or event types and prefix patterns such as ``order.*``; ``()`` is nothing.
    ``identity_ids`` ``None`` is every event, ``()`` none.
    """

    scope: Scope
    tenant_id: str | None
    partner_id: str | None
    environment: str
    events: tuple[str, ...]
    identity_ids: tuple[str, ...] | None
    endpoint_id: str = ""
    _names: frozenset[str] = field(init=False, repr=False, compare=False)
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _identities: frozenset[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the filters. An empty prefix is the prefix of everything."""
        patterns = [name for name in self.events if name.endswith(".*")]
        prefixes = ("",) if EVERYTHING in self.events else tuple(name[:-1] for name in patterns)
        identities = None if self.identity_ids is None else frozenset(self.identity_ids)
        object.__setattr__(self, "_names", frozenset(self.events).difference(patterns))
        object.__setattr__(self, "_prefixes", prefixes)
        object.__setattr__(self, "_identities", identities)


def wants(sub: Subscription, event: EventFacts) -> bool:
    """Whether the endpoint behind ``sub`` is to receive ``event``.

    Says nothing about the endpoint being enabled or deleted: that is the query's part.
    """
    return (
        sub.environment == event.environment
        and (event.type in sub._names or event.type.startswith(sub._prefixes))
        and _wants_identity(sub, event)
        and _sees(sub, event)
        and event.type not in NEVER_FANNED_OUT
        and (event.type not in OPERATIONAL or _may_hear(sub, event))
    )


def _wants_identity(sub: Subscription, event: EventFacts) -> bool:
    if sub._identities is None:
        return True
    return bool(event.identity_id) and event.identity_id in sub._identities


def _sees(sub: Subscription, event: EventFacts) -> bool:
    """The tenant's own events, those of the partner's tenants, or all: exactly what the scope says."""
    match sub.scope:
        case "tenant":
            return bool(sub.tenant_id) and not sub.partner_id and sub.tenant_id == event.tenant_id
        case "partner":
            return bool(sub.partner_id) and not sub.tenant_id and sub.partner_id == event.partner_id
        case "platform":
            return not sub.tenant_id and not sub.partner_id
        case _:
            return False


def _may_hear(sub: Subscription, event: EventFacts) -> bool:
    if event.about and event.about == sub.endpoint_id:
        return False
    return sub.scope != "tenant" or event.notify_tenant


class PatternError(ValueError):
    """A list of event patterns is not acceptable. ``path`` is ``events`` or ``events/N`` (N from 0)."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


def check_patterns(events: Sequence[str]) -> None:
    """Check an endpoint's list of event patterns, as parsed from JSON.

    Allowed: ``[]``, ``["*"]``, or up to 100 different event types (``[A-Za-z0-9_]`` joined by full stops,
    at most 128 characters) and such names followed by ``.*``. ``*`` beside others would hide them.

    Raises ``PatternError`` with the place of the first mistake.
    """
    if not isinstance(events, list | tuple):
        raise PatternError("events", "must be a list")
    if len(events) > MAX_PATTERNS:
        raise PatternError("events", f"must have at most {MAX_PATTERNS} entries")
    seen: set[str] = set()
    for place, name in enumerate(events):
        problem = _problem(name, alone=len(events) == 1, seen=seen)
        if problem:
            raise PatternError(f"events/{place}", problem)
        seen.add(name)


def _problem(name: object, *, alone: bool, seen: set[str]) -> str | None:
    if not isinstance(name, str):
        return "must be a string"
    if name == EVERYTHING:
        return None if alone else '"*" means every event and must stand alone'
    if len(name) > MAX_PATTERN_LENGTH:
        return f"must have at most {MAX_PATTERN_LENGTH} characters"
    if not EVENT_TYPE.fullmatch(name.removesuffix(".*")):
        return 'must be "*", an event type such as order.created, or a prefix such as order.*'
    return "must not be repeated" if name in seen else None
