"""A measurement's result: figures, targets, one line of JSON."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for one figure."""

    figure: str
    bound: float
    at_least: bool

    def __str__(self) -> str:
        return f"{self.figure} {'>=' if self.at_least else '<='} {self.bound:g}"

    def is_reached(self, figures: dict[str, Any]) -> bool:
        """Whether the figure is there and keeps the bound."""
        value = figures.get(self.figure)
        if value is None:
            return False
        return bool(value >= self.bound if self.at_least else value <= self.bound)


def at_least(figure: str, bound: float) -> Target:
    """The figure may not be smaller."""
    return Target(figure, bound, True)


def at_most(figure: str, bound: float) -> Target:
    """The figure may not be larger."""
    return Target(figure, bound, False)


@dataclass(frozen=True, slots=True)
class Result:
    """What one measurement found."""

    name: str
    figures: dict[str, Any]
    targets: tuple[Target, ...] = ()

    @property
    def missed(self) -> list[str]:
        """The targets that were not reached."""
        return [str(target) for target in self.targets if not target.is_reached(self.figures)]

    def line(self) -> str:
        """Return the result as one line of JSON."""
        verdict: dict[str, Any] = {"target": "; ".join(map(str, self.targets))}
        if self.targets:
            verdict |= {"reached": not self.missed, "missed": self.missed}
        return json.dumps({"name": self.name, **self.figures, **verdict})
