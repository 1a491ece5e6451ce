"""Policies: retry, classification, limits and health rules of an endpoint, as data.

A preset is one row of ``PRESETS``; nothing else in the code knows its name. An endpoint may change some
fields within the operator's bounds (``with_overrides``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class AutoDisable:
    """Disable after ``failures`` in a row, when the first of them is at least ``span`` seconds old."""

    failures: int
    span: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that may differ between two endpoints' treatment. Times are in seconds.

    ``waits``             nominal wait after the 1st, 2nd, … failed attempt
    ``jitter``            largest deviation from a wait, as a share of it (0.1 = ±10 %)
    ``jitter_kind``       where the caller takes the jitter from: at random, or fixed per delivery
    ``max_wait``          longest wait that jitter or a Retry-After may make
    ``window``            no retry this long after the schedule began; None = the waits alone decide
    ``retried``           HTTP statuses that are tried again; every other failing status is final
    ``retry_refused``     whether a refused address or URL is tried again
    ``retry_after_on``    statuses whose Retry-After raises the wait (RFC 9110 §10.2.3)
    ``free_deferrals``    how many such waits cost no step of the schedule
    ``honours_control``   whether the reply header ``webhook-delivery`` acts
    ``gone_disables``     whether a 410 disables the endpoint (Standard Webhooks 1.0.0, "Delivery success…")
    ``auto_disable``      when lasting failure disables it; None = never
    ``breaker``           no preset has one yet
    ``notify_tenant``     whether the tenant's other endpoints hear of operational events
    ``replay_id``         whether a replay keeps the ``webhook-id``
    ``default_signing``, ``default_format``   for an endpoint whose creator names none
    """

    name: str
    waits: tuple[float, ...]
    jitter: float
    jitter_kind: Literal["random", "delivery", "none"]
    connect_timeout: float
    total_timeout: float
    reply_bytes: int
    retried: frozenset[int]
    retry_after_on: frozenset[int]
    retry_refused: bool
    gone_disables: bool
    auto_disable: AutoDisable | None
    max_wait: float = DAY
    window: float | None = None
    free_deferrals: int = 0
    honours_control: bool = True
    breaker: None = None
    notify_tenant: bool = False
    replay_id: Literal["same", "new"] = "same"
    default_signing: tuple[str, ...] = ("v1",)
    default_format: str = "envelope"

    @property
    def max_attempts(self) -> int:
        """Attempts in a whole schedule, the first included."""
        return len(self.waits) + 1


_FAILING = frozenset(range(300, 600))

STANDARD = Policy(
    name="standard",
    waits=(30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 43_200, 43_200, 68_400),
    jitter=0.1,
    jitter_kind="random",
    connect_timeout=5.0,
    total_timeout=15.0,
    reply_bytes=4096,
    retried=_FAILING - {410},
    retry_after_on=_FAILING,
    retry_refused=True,
    gone_disables=True,
    auto_disable=AutoDisable(failures=100, span=DAY),
)

PRESETS: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in (STANDARD,)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How far an endpoint's own values may go; the operator's choice. Times are in seconds."""

    max_attempts: int = 30
    max_window: float = 8 * DAY
    min_wait: float = 1.0
    max_jitter: float = 0.5
    min_timeout: float = 0.1
    max_total_timeout: float = 60.0
    max_reply_bytes: int = 65_536


DEFAULT_BOUNDS = Bounds()


class PolicyError(ValueError):
    """An override is unknown, of the wrong type or out of bounds. ``path`` names it, e.g. ``waits/3``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def with_overrides(
    policy: Policy, overrides: Mapping[str, object], bounds: Bounds = DEFAULT_BOUNDS
) -> Policy:
    """Return ``policy`` with an endpoint's own values in place of some fields.

    ``overrides`` may hold ``waits`` (a list of seconds, empty = one attempt only), ``jitter``,
    ``connect_timeout``, ``total_timeout`` (seconds) and ``reply_bytes``, as parsed from JSON: a boolean is
    no number and a numeric string neither. The waits' sum is bounded before jitter. Costs too much for the
    hot path: callers keep the result.

    Raises ``PolicyError`` naming the field and the bound.
    """
    if not isinstance(overrides, Mapping):
        raise PolicyError("", "must be an object")
    values: dict[str, Any] = {key: _checked(key, value, bounds) for key, value in overrides.items()}
    changed = replace(policy, **values)
    if changed.connect_timeout > changed.total_timeout:
        at_fault = "connect_timeout" if "connect_timeout" in values else "total_timeout"
        raise PolicyError(
            at_fault,
            f"connect_timeout ({changed.connect_timeout:g}) must not exceed "
            f"total_timeout ({changed.total_timeout:g})",
        )
    return changed


def _checked(key: object, value: object, bounds: Bounds) -> object:
    check = _OVERRIDES.get(key) if isinstance(key, str) else None
    if check is None:
        raise PolicyError(str(key), f"unknown field, known are {', '.join(sorted(_OVERRIDES))}")
    return check(value, bounds)


def _waits(value: object, bounds: Bounds) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise PolicyError("waits", "must be a list of seconds")
    if len(value) > bounds.max_attempts - 1:
        raise PolicyError("waits", f"must have at most {bounds.max_attempts - 1} entries")
    low, high = bounds.min_wait, bounds.max_window
    waits = tuple(_number(f"waits/{place}", wait, low, high) for place, wait in enumerate(value))
    if math.fsum(waits) > bounds.max_window:
        raise PolicyError("waits", f"must add up to at most {bounds.max_window:.12g} seconds")
    return waits


def _jitter(value: object, bounds: Bounds) -> float:
    return _number("jitter", value, 0.0, bounds.max_jitter)


def _connect_timeout(value: object, bounds: Bounds) -> float:
    return _number("connect_timeout", value, bounds.min_timeout, bounds.max_total_timeout)


def _total_timeout(value: object, bounds: Bounds) -> float:
    return _number("total_timeout", value, bounds.min_timeout, bounds.max_total_timeout)


def _reply_bytes(value: object, bounds: Bounds) -> int:
    if isinstance(value, float):
        raise PolicyError("reply_bytes", "must be a whole number")
    return int(_number("reply_bytes", value, 0, bounds.max_reply_bytes))


_OVERRIDES: Mapping[str, Callable[[object, Bounds], object]] = {
    "waits": _waits,
    "jitter": _jitter,
    "connect_timeout": _connect_timeout,
    "total_timeout": _total_timeout,
    "reply_bytes": _reply_bytes,
}


def _number(path: str, value: object, low: float, high: float) -> float:
    """Check a JSON number. Compared before it is converted: NaN fails, a huge integer cannot overflow."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(path, "must be a number")
    if not low <= value <= high:
        raise PolicyError(path, f"must be from {low:.12g} to {high:.12g}")
    return float(value)
