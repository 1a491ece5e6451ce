"""Faults of a request, collected so that its sender sees all of them in one answer."""

from collections.abc import Callable
from typing import Any, TypeVar

from ..core.matching import PatternError
from ..core.policies import PolicyError
from ..exceptions import InvalidRequest

T = TypeVar("T")


class Fault(ValueError):
    """One value is refused; `path` says which."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message


class Faults:
    """The faults found so far."""

    def __init__(self) -> None:
        self._errors: list[tuple[str, str]] = []

    def add(self, path: str, message: str) -> None:
        """Note one fault."""
        self._errors.append((path, message))

    def check(self, rule: Callable[..., T], *arguments: Any) -> T | None:
        """Return what `rule` makes of the arguments; None when it refuses them."""
        try:
            return rule(*arguments)
        except InvalidRequest as error:
            self._errors += error.errors
        except (Fault, PatternError, PolicyError) as error:
            self.add(error.path, error.message)
        return None

    def finish(self) -> None:
        """Raise InvalidRequest when there was any fault."""
        if self._errors:
            raise InvalidRequest(self._errors)
