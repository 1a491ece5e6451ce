"""What the fields of an endpoint may hold, for create and update alike."""

from collections.abc import Callable, Mapping
from typing import Any

from ..core.matching import check_patterns
from ..core.secrets import SecretError, canonical
from ..models import Endpoint
from . import endpoint_limits as limits
from .endpoint_headers import headers
from .faults import Fault, Faults

METHODS = ("POST", "PUT", "PATCH")
ENVIRONMENTS = ("live", "test")
MAX_IDENTITIES = 1_000
MAX_ID = 128
MAX_DESCRIPTION = 500


def text(path: str, value: object, *, at_most: int, at_least: int = 1) -> str:
    """Return a text that every database can hold."""
    if not isinstance(value, str):
        raise Fault(path, "must be text")
    if not at_least <= len(value) <= at_most:
        raise Fault(path, f"must have {at_least} to {at_most} characters")
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Fault(path, "must not hold NUL or half of a surrogate pair")
    return value


def events(value: object) -> list[str]:
    """Return the event patterns; `[]` receives nothing."""
    patterns: Any = value
    check_patterns(patterns)
    return list(patterns)


def identity_ids(value: object) -> list[str] | None:
    """Return the identity filter: None lets everything through, `[]` nothing."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise Fault("identity_ids", "must be a list or null")
    if len(value) > MAX_IDENTITIES:
        raise Fault("identity_ids", f"must have at most {MAX_IDENTITIES} entries")
    ids = [text(f"identity_ids/{place}", item, at_most=MAX_ID) for place, item in enumerate(value)]
    if len(set(ids)) != len(ids):
        raise Fault("identity_ids", "must not repeat an entry")
    return ids


def description(value: object) -> str:
    """Return the description; null is none."""
    return "" if value is None else text("description", value, at_most=MAX_DESCRIPTION, at_least=0)


def method(value: object) -> str:
    """Return the HTTP method."""
    return _one_of("method", value, METHODS)


def environment(value: object) -> str:
    """Return the environment."""
    return _one_of("environment", value, ENVIRONMENTS)


def secret(value: object) -> str:
    """Return the canonical spelling of a secret that the caller brings; a message holds none of it."""
    try:
        return canonical(value)  # type: ignore[arg-type]
    except SecretError as error:
        raise Fault("secret", str(error)) from None


def _one_of(path: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise Fault(path, f"must be one of {', '.join(known)}")
    return value


# The fields that stand for themselves; url, policy and headers need more than their own value.
PLAIN: Mapping[str, Callable[[object], Any]] = {
    "events": events,
    "identity_ids": identity_ids,
    "description": description,
    "method": method,
    "max_in_flight": limits.max_in_flight,
    "ordering": limits.ordering,
    "rate_limit": limits.rate_limit,
}

ORDER = ("ordering", "max_in_flight")


def columns(given: Mapping[str, Any], endpoint: Endpoint, faults: Faults) -> dict[str, Any]:
    """Return the columns that the given fields set; a refused one is noted in `faults` and None here.

    Args:
        given: fields by their API names; the URL is not among them, because its check waits for DNS.
        endpoint: as it is now; what the given fields must fit to.
    """
    found = {name: faults.check(rule, given[name]) for name, rule in PLAIN.items() if name in given}
    if given.keys() & {"policy", "policy_overrides"}:
        name = given.get("policy", endpoint.policy)
        pair = faults.check(limits.policy, name, given.get("policy_overrides", endpoint.policy_overrides))
        found["policy"], found["policy_overrides"] = pair or (None, None)
    if given.keys() & {"ordering", "max_in_flight"}:
        limits.check_order({name: found.get(name, getattr(endpoint, name)) for name in ORDER}, faults)
    if "headers" in given:
        found["headers"] = faults.check(headers, endpoint.public_id, given["headers"], endpoint.headers)
    return found
