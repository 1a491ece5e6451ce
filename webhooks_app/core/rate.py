"""Token buckets: how many requests may leave now under a rate, and when the next one may."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

MIN_PER_SECOND = 0.001
MAX_PER_SECOND = 100_000.0
MAX_BURST = 1_000_000.0

_LIMITS: Mapping[str, tuple[float, float]] = {
    "per_second": (MIN_PER_SECOND, MAX_PER_SECOND),
    "burst": (1.0, MAX_BURST),
}


@dataclass(frozen=True, slots=True)
class Rate:
    """A bucket of ``burst`` tokens that ``per_second`` flow into; a request takes one."""

    per_second: float
    burst: float


class RateError(ValueError):
    """A rate is of the wrong form or out of bounds. ``path`` names the field, ``""`` the whole of it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def parse_rate(value: object) -> Rate | None:
    """Return the rate that ``{"per_second": n, "burst": n}`` describes; ``None`` is no limit.

    A burst that is left out is what flows in within a second, at least one request.

    Raises ``RateError`` naming the field and its limits.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise RateError("", 'must be {"per_second": number, "burst": number} or null')
    for name in value:
        if name not in _LIMITS:
            raise RateError(str(name), "unknown field, known are per_second, burst")
    if "per_second" not in value:
        raise RateError("per_second", "is required")
    per_second = _number("per_second", value["per_second"])
    return Rate(per_second, _number("burst", value["burst"]) if "burst" in value else max(1.0, per_second))


def available(rate: Rate, tokens: float | None, since: datetime | None, now: datetime) -> float:
    """Return the tokens in the bucket at ``now``.

    ``tokens`` were left at ``since``; ``None`` is a full bucket. A clock that went back adds nothing.
    """
    if tokens is None:
        return rate.burst
    seconds = 0.0 if since is None else max(0.0, (now - since).total_seconds())
    return min(rate.burst, tokens + seconds * rate.per_second)


def wait_for_one(rate: Rate, tokens: float) -> float:
    """Return the seconds until a bucket with ``tokens`` holds a whole one, 0 when it does.

    In whole microseconds, the steps of the clock, and one more: who waits so long finds the token.
    """
    if tokens >= 1.0:
        return 0.0
    return (math.ceil((1.0 - tokens) / rate.per_second * 1e6) + 1) / 1e6


def _number(name: str, value: object) -> float:
    low, high = _LIMITS[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RateError(name, "must be a number")
    if not low <= value <= high:
        raise RateError(name, f"must be from {low:.12g} to {high:.12g}")
    return float(value)
