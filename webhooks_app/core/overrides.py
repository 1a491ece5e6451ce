"""An endpoint's own values in place of a policy's, and policies of the operator's own."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from .bounds import DEFAULT_BOUNDS, Bounds, PolicyError, choice, flag, mapping, number, several, whole
from .ordering import ORDERINGS
from .policy import DAY, AutoDisable, Breaker, Policy

Check = Callable[[str, object, Bounds], object]

STATUSES = (300, 599)
SIGNING = ("v1", "v1a", "sha256")
FORMATS = ("envelope", "cloudevents", "cloudevents-binary", "raw")
MAX_IN_FLIGHT = 1000
MAX_WARNINGS = 5
MAX_SPAN = 90 * DAY

_NAME = re.compile("[a-z][a-z0-9_-]{0,63}")


def with_overrides(
    policy: Policy, overrides: Mapping[str, object], bounds: Bounds = DEFAULT_BOUNDS
) -> Policy:
    """Return ``policy`` with an endpoint's own values in place of some fields.

    ``overrides`` is an object as parsed from JSON: a boolean is no number and a numeric string neither. It
    may hold every field but the name and the defaults for new endpoints. ``auto_disable`` and ``breaker``
    are ``false`` or an object, whose values replace the policy's own one by one. The waits' sum is bounded
    before jitter. Costs too much for the hot path: callers keep the result.

    Raises ``PolicyError`` naming the field and the bound.
    """
    return _changed(policy, mapping("", overrides), bounds, OVERRIDES)


def custom_policy(
    name: str,
    definition: Mapping[str, object],
    presets: Mapping[str, Policy],
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Policy:
    """Return a policy of the operator's own: ``{"base": "strict", …}`` and overrides of that preset.

    ``definition`` may also hold the defaults for new endpoints: ``default_signing``, ``default_format``,
    ``default_ordering`` and ``default_max_in_flight``.

    Raises ``PolicyError`` when the name is taken or not made of lower-case letters, digits, ``-`` and
    ``_``, when the base is unknown, or as ``with_overrides`` does.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PolicyError("", "the name must be 1 to 64 of a-z, 0-9, - and _, a letter first")
    if name in presets:
        raise PolicyError("", "the name is a preset's; give it another one")
    values = dict(mapping("", definition))
    base = presets[choice("base", values.pop("base", None), tuple(presets))]
    return replace(_changed(base, values, bounds, OVERRIDES | DEFAULTS), name=name)


def _changed(
    policy: Policy, overrides: Mapping[str, object], bounds: Bounds, checks: Mapping[str, Check]
) -> Policy:
    values: dict[str, Any] = {}
    for key, value in overrides.items():
        if key in _PARTS:
            values[key] = _part(policy, key, value)
        elif key in checks:
            values[key] = checks[key](key, value, bounds)
        else:
            raise PolicyError(str(key), f"unknown field, known are {', '.join(sorted({*checks, *_PARTS}))}")
    changed = replace(policy, **values)
    _check_timeouts(changed, "connect_timeout" if "connect_timeout" in values else "total_timeout")
    return changed


def _check_timeouts(policy: Policy, at_fault: str) -> None:
    if policy.connect_timeout > policy.total_timeout:
        raise PolicyError(
            at_fault,
            f"connect_timeout ({policy.connect_timeout:g}) must not exceed "
            f"total_timeout ({policy.total_timeout:g})",
        )


def _waits(path: str, value: object, bounds: Bounds) -> tuple[float, ...]:
    given = several(path, value, bounds.max_attempts - 1)
    low, high = bounds.min_wait, bounds.max_window
    waits = tuple(number(f"{path}/{place}", wait, low, high) for place, wait in enumerate(given))
    if math.fsum(waits) > bounds.max_window:
        raise PolicyError(path, f"must add up to at most {bounds.max_window:.12g} seconds")
    return waits


def _jitter(path: str, value: object, bounds: Bounds) -> float:
    return number(path, value, 0.0, bounds.max_jitter)


def _timeout(path: str, value: object, bounds: Bounds) -> float:
    return number(path, value, bounds.min_timeout, bounds.max_total_timeout)


def _reply_bytes(path: str, value: object, bounds: Bounds) -> int:
    return whole(path, value, 0, bounds.max_reply_bytes)


def _deferrals(path: str, value: object, bounds: Bounds) -> int:
    return whole(path, value, 0, bounds.max_deferrals)


def _period(path: str, value: object, bounds: Bounds) -> float:
    return number(path, value, bounds.min_wait, bounds.max_window)


def _optional_period(path: str, value: object, bounds: Bounds) -> float | None:
    return None if value is None else _period(path, value, bounds)


def _flag(path: str, value: object, bounds: Bounds) -> bool:
    return flag(path, value)


def _statuses(path: str, value: object, bounds: Bounds) -> frozenset[int]:
    given = several(path, value, 1 + STATUSES[1] - STATUSES[0])
    return frozenset(whole(f"{path}/{place}", status, *STATUSES) for place, status in enumerate(given))


def _one_of(*known: str) -> Check:
    return lambda path, value, bounds: choice(path, value, known)


def _signing(path: str, value: object, bounds: Bounds) -> tuple[str, ...]:
    given = several(path, value, len(SIGNING))
    schemes = tuple(choice(f"{path}/{place}", scheme, SIGNING) for place, scheme in enumerate(given))
    if not schemes or len(set(schemes)) != len(schemes):
        raise PolicyError(path, "must name at least one scheme, and none twice")
    return schemes


def _in_flight(path: str, value: object, bounds: Bounds) -> int:
    return whole(path, value, 1, MAX_IN_FLIGHT)


OVERRIDES: dict[str, Check] = {
    "waits": _waits,
    "jitter": _jitter,
    "jitter_kind": _one_of("random", "delivery", "none"),
    "max_wait": _period,
    "window": _optional_period,
    "time_to_live": _optional_period,
    "connect_timeout": _timeout,
    "total_timeout": _timeout,
    "reply_bytes": _reply_bytes,
    "retried": _statuses,
    "retry_after_on": _statuses,
    "retry_refused": _flag,
    "free_deferrals": _deferrals,
    "honours_control": _flag,
    "gone_disables": _flag,
    "warns_redirect": _flag,
    "notify_tenant": _flag,
    "replay_id": _one_of("same", "new"),
    "replay_while_open": _flag,
}
DEFAULTS: dict[str, Check] = {
    "default_signing": _signing,
    "default_format": _one_of(*FORMATS),
    "default_ordering": _one_of(*ORDERINGS),
    "default_max_in_flight": _in_flight,
}


def _within(low: float, high: float) -> Callable[[str, object], object]:
    return lambda path, value: number(path, value, low, high)


def _count(low: int, high: int) -> Callable[[str, object], object]:
    return lambda path, value: whole(path, value, low, high)


def _start_within(path: str, value: object) -> float | None:
    return None if value is None else number(path, value, 1, MAX_SPAN)


def _warnings(path: str, value: object) -> tuple[float, ...]:
    given = several(path, value, MAX_WARNINGS)
    shares = tuple(number(f"{path}/{place}", share, 0.01, 0.99) for place, share in enumerate(given))
    if list(shares) != sorted(set(shares)):
        raise PolicyError(path, "must rise")
    return shares


# Fields that are objects of their own: their class, and the checks of what is in them.
_PARTS: Mapping[str, tuple[type[AutoDisable] | type[Breaker], Mapping[str, Callable[[str, object], Any]]]] = {
    "auto_disable": (
        AutoDisable,
        {
            "failures": _count(1, 10_000),
            "span": _within(0, MAX_SPAN),
            "start_within": _start_within,
            "start_span": _within(0, MAX_SPAN),
            "warnings": _warnings,
        },
    ),
    "breaker": (
        Breaker,
        {
            "failures": _count(1, 10_000),
            "open_seconds": _within(1, DAY),
            "probe_seconds": _within(1, DAY),
            "probes": _count(1, 100),
            "probes_to_half_open": _count(0, 100),
            "successes_to_close": _count(1, 100),
        },
    ),
}


def _part(policy: Policy, key: str, value: object) -> AutoDisable | Breaker | None:
    if value is False:
        return None
    if not isinstance(value, Mapping):
        raise PolicyError(key, "must be false or an object")
    form, checks = _PARTS[key]
    given: dict[str, Any] = {}
    for name, item in value.items():
        if name not in checks:
            raise PolicyError(f"{key}/{name}", f"unknown field, known are {', '.join(checks)}")
        given[name] = checks[name](f"{key}/{name}", item)
    own: AutoDisable | Breaker | None = getattr(policy, key)
    missing = [field.name for field in fields(form) if _required(field) and field.name not in given]
    if own is None and missing:
        raise PolicyError(f"{key}/{missing[0]}", f"is required: {policy.name} has no {key} of its own")
    return form(**given) if own is None else replace(own, **given)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING
