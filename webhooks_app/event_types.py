"""The host's event types: what there is to subscribe to, and which of it takes a permission of its own.

Register them in your AppConfig.ready(). Types that are not registered work all the same.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .core.matching import EVENT_TYPE, EVERYTHING, MAX_PATTERN_LENGTH
from .exceptions import ConfigurationError

PREFIX = ".*"


@dataclass(frozen=True, slots=True)
class EventType:
    """One type. ``permission`` is what an API key needs besides to have it sent anywhere; None = nothing."""

    name: str
    permission: str | None = None
    description: str = ""
    example: Any = None


_types: dict[str, EventType] = {}


def event_type(
    name: str, *, permission: str | None = None, description: str = "", example: Any = None
) -> EventType:
    """Register an event type and return it.

    Args:
        name: as given to `emit`, such as `order.paid`.
        permission: for sensitive types: what API keys need to register a webhook for it, to move such a
            webhook to another URL, to have it replayed, and to read it.
        description: for the people who write receivers.
        example: data of such an event, as JSON can say it.

    Raises:
        ConfigurationError: the name is not one, or is registered already with other words.
    """
    if not isinstance(name, str) or len(name) > MAX_PATTERN_LENGTH or not EVENT_TYPE.fullmatch(name):
        raise ConfigurationError(f"{name!r} is no event type; write words joined by full stops: order.paid")
    made = EventType(name, permission, description, example)
    if _types.setdefault(name, made) != made:
        raise ConfigurationError(f"the event type {name} is registered twice, with different words")
    return made


def event_types() -> tuple[EventType, ...]:
    """Return every registered type, by name."""
    return tuple(_types[name] for name in sorted(_types))


def permissions_for(patterns: Collection[str]) -> frozenset[str]:
    """Return the permissions that a list of event patterns takes: `*`, types, prefixes such as `order.*`."""
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith(PREFIX))
    everything = EVERYTHING in patterns
    return frozenset(
        each.permission
        for each in _types.values()
        if each.permission and (everything or each.name in patterns or each.name.startswith(prefixes))
    )
