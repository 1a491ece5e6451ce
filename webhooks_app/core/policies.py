"""Policies: the presets, what they consist of, and how operators and endpoints change them."""

from .bounds import DEFAULT_BOUNDS, Bounds, PolicyError, bounds_of
from .overrides import custom_policy, with_overrides
from .policy import DAY, AutoDisable, Breaker, Policy
from .presets import EXPONENTIAL, PRESETS, QUICK, STANDARD, STRICT

__all__ = [
    "DAY",
    "DEFAULT_BOUNDS",
    "EXPONENTIAL",
    "PRESETS",
    "QUICK",
    "STANDARD",
    "STRICT",
    "AutoDisable",
    "Bounds",
    "Breaker",
    "Policy",
    "PolicyError",
    "bounds_of",
    "custom_policy",
    "with_overrides",
]
