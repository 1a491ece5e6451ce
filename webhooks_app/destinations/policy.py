"""The policy of an endpoint: a named one with its own values, resolved once per combination."""

from functools import lru_cache
from json import dumps, loads
from typing import Any, Protocol

from django.core.signals import setting_changed

from .. import conf
from ..core.policies import PRESETS, Policy, PolicyError, with_overrides


@lru_cache(maxsize=4096)
def resolve(name: str, overrides: str) -> Policy:
    """Return the policy `name` with `overrides` (JSON text, as stored).

    A row whose policy or overrides are no longer valid falls back to the default policy or to the policy as
    it is: its deliveries go on, and the admin shows the row.
    """
    settings, known = conf.current(), conf.policies()
    policy = known.get(name) or known.get(settings.DEFAULT_POLICY) or PRESETS["standard"]
    try:
        return with_overrides(policy, loads(overrides), settings.POLICY_BOUNDS)
    except PolicyError:
        return policy


class _Row(Protocol):
    @property
    def policy(self) -> str: ...
    @property
    def policy_overrides(self) -> Any: ...


def policy_of(endpoint: _Row) -> Policy:
    """Return the policy of an endpoint row."""
    return resolve(endpoint.policy, dumps(endpoint.policy_overrides, sort_keys=True))


def _forget(*, setting: str, **_: object) -> None:
    if setting == "WEBHOOKS":
        resolve.cache_clear()


setting_changed.connect(_forget, dispatch_uid="webhooks_app.destinations.policy")
