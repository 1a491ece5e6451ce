"""The policy of an endpoint: its preset with its own values, resolved once per combination."""

from functools import lru_cache
from json import loads

from ..conf import current
from ..core.policies import PRESETS, Policy, PolicyError, with_overrides


@lru_cache(maxsize=4096)
def resolve(name: str, overrides: str) -> Policy:
    """Return the policy `name` with `overrides` (JSON text, as stored).

    A row whose preset or overrides are no longer valid falls back to the default preset: its deliveries go
    on, and the admin shows the row.
    """
    preset = PRESETS.get(name) or PRESETS[current().DEFAULT_POLICY]
    try:
        return with_overrides(preset, loads(overrides))
    except PolicyError:
        return preset
