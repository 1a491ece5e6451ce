"""How far an endpoint's own values may go, and the checks of single JSON values that the bounds need."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from .policy import DAY


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
    max_deferrals: int = 10


DEFAULT_BOUNDS = Bounds()

# How far the operator may go: lowest and highest value of each bound. No choice leaves nothing allowed.
BOUND_LIMITS: Mapping[str, tuple[float, float]] = {
    "max_attempts": (1, 1000),
    "max_window": (60, 365 * DAY),
    "min_wait": (0.1, 60),
    "max_jitter": (0, 0.9),
    "min_timeout": (0.01, 1),
    "max_total_timeout": (1, 300),
    "max_reply_bytes": (0, 1_048_576),
    "max_deferrals": (0, 1000),
}
_WHOLE = frozenset({"max_attempts", "max_reply_bytes", "max_deferrals"})


class PolicyError(ValueError):
    """An override is unknown, of the wrong type or out of bounds. ``path`` names it, e.g. ``waits/3``."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def bounds_of(values: Mapping[str, object]) -> Bounds:
    """Return the default bounds with the operator's ``values`` in place of some.

    Raises ``PolicyError`` naming the bound and its own limits.
    """
    known = {field.name for field in fields(Bounds)}
    given: dict[str, float] = {}
    for name, value in mapping("", values).items():
        if name not in known:
            raise PolicyError(str(name), f"unknown bound, known are {', '.join(sorted(known))}")
        check = whole if name in _WHOLE else number
        given[name] = check(name, value, *BOUND_LIMITS[name])
    return Bounds(**given)  # type: ignore[arg-type]


def number(path: str, value: object, low: float, high: float) -> float:
    """Check a JSON number. Compared before it is converted: NaN fails, a huge integer cannot overflow."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PolicyError(path, "must be a number")
    if not low <= value <= high:
        raise PolicyError(path, f"must be from {low:.12g} to {high:.12g}")
    return float(value)


def whole(path: str, value: object, low: float, high: float) -> int:
    """Check a JSON integer; ``10.0`` is none."""
    if isinstance(value, float):
        raise PolicyError(path, "must be a whole number")
    number(path, value, low, high)
    return int(value)  # type: ignore[call-overload, no-any-return]


def flag(path: str, value: object) -> bool:
    """Check a JSON boolean."""
    if not isinstance(value, bool):
        raise PolicyError(path, "must be true or false")
    return value


def choice(path: str, value: object, known: tuple[str, ...]) -> str:
    """Check a text that is one of a few."""
    if not isinstance(value, str) or value not in known:
        raise PolicyError(path, f"must be one of {', '.join(known)}")
    return value


def several(path: str, value: object, at_most: int) -> list[object]:
    """Check a JSON array of at most so many entries."""
    if not isinstance(value, list | tuple):
        raise PolicyError(path, "must be a list")
    if len(value) > at_most:
        raise PolicyError(path, f"must have at most {at_most} entries")
    return list(value)


def mapping(path: str, value: object) -> Mapping[str, object]:
    """Check a JSON object."""
    if not isinstance(value, Mapping):
        raise PolicyError(path, "must be an object")
    return value
