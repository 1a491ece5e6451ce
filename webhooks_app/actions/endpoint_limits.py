"""How an endpoint is treated: its policy with its own values, its order, its limits."""

from collections.abc import Mapping
from typing import Any

from .. import conf
from ..core.ordering import FIFO, NONE, ORDERINGS
from ..core.overrides import MAX_IN_FLIGHT
from ..core.policies import Policy, PolicyError, with_overrides
from ..core.rate import RateError, parse_rate
from .faults import Fault, Faults


def policy(name: object, overrides: object) -> tuple[str, dict[str, Any]]:
    """Return the policy's name and the endpoint's own values, which must fit together."""
    known = conf.policies()
    if not isinstance(name, str) or name not in known:
        raise Fault("policy", f"must be one of {', '.join(known)}")
    given = {} if overrides is None else overrides
    try:
        with_overrides(known[name], given, conf.current().POLICY_BOUNDS)  # type: ignore[arg-type]
    except PolicyError as error:
        path = f"policy_overrides/{error.path}" if error.path else "policy_overrides"
        raise Fault(path, error.message) from None
    return name, dict(given)  # type: ignore[call-overload]


def ordering(value: object) -> str:
    """Return whether deliveries keep an order: `none`, `fifo`, or `subject` (those of one owner do)."""
    if not isinstance(value, str) or value not in ORDERINGS:
        raise Fault("ordering", f"must be one of {', '.join(ORDERINGS)}")
    return value


def max_in_flight(value: object) -> int:
    """Return how many requests may be open at once."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_IN_FLIGHT:
        raise Fault("max_in_flight", f"must be a whole number from 1 to {MAX_IN_FLIGHT}")
    return value


def rate_limit(value: object) -> dict[str, Any] | None:
    """Return how many requests may leave, with the burst filled in; None is no limit."""
    try:
        rate = parse_rate(value)
    except RateError as error:
        raise Fault(f"rate_limit/{error.path}" if error.path else "rate_limit", error.message) from None
    return None if rate is None else {"burst": rate.burst, **value}  # type: ignore[dict-item]


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a new endpoint with what its policy says where these are None."""
    chosen: Policy | None = conf.policies().get(given["policy"]) if isinstance(given["policy"], str) else None
    values = dict(given)
    if values["ordering"] is None:
        values["ordering"] = chosen.default_ordering if chosen else NONE
    if values["max_in_flight"] is None:
        several = chosen.default_max_in_flight if chosen else 1
        values["max_in_flight"] = 1 if values["ordering"] == FIFO else several
    return values


def check_order(columns: Mapping[str, Any], faults: Faults) -> None:
    """Note a fault when a strict order could not be kept: whoever sends several at once keeps none."""
    if columns["ordering"] == FIFO and (columns["max_in_flight"] or 0) > 1:
        faults.add("max_in_flight", "must be 1 where ordering is fifo; give both, or another ordering")
