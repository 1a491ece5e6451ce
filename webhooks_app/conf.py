"""Every setting of the app, in one frozen object: `conf.current()`.

The dict `WEBHOOKS` in Django's settings is read once and again when tests override it. Unknown keys and bad
values are collected as `Problem`s; the system checks report them all, and `current()` raises the first.
"""

import base64
import binascii
import ipaddress
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from .core.policies import PRESETS, Bounds, Policy, PolicyError, bounds_of, custom_policy
from .core.rate import Rate, parse_rate
from .exceptions import ConfigurationError

QUEUES = ("celery", "inline", "poll")
URL_CHANGES = ("keep", "disable")
KEY_BYTES = 32
# Requests a minute: of a caller, of all callers of a tenant or partner, of a caller at one costly operation.
API_RATE_LIMITS = {"key": 600, "tenant": 1_800, "partner": 1_800, "operation": 30}
MAX_NODE_NAME = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """The WEBHOOKS dict with defaults; times in seconds, sizes in bytes."""

    MASTER_KEYS: tuple[bytes, ...] = field(default=(), repr=False)
    DATABASE: str = "default"
    OUTBOX_DATABASES: tuple[str, ...] = ("default",)
    QUEUE: str = "celery"
    QUEUE_NAME: str = "webhooks"
    SLOW_QUEUE_NAME: str | None = None
    BULK_QUEUE_NAME: str | None = None
    NODE_NAME: str | None = None
    REQUIRE_ATOMIC: bool = True
    API_VERSION: str = "2026-10-01"
    MAX_BODY_BYTES: int = 262_144
    WARN_BODY_BYTES: int = 20_000
    RETENTION_DAYS: int = 30
    MAX_ENDPOINTS: int = 20
    DEFAULT_POLICY: str = "standard"
    POLICIES: Mapping[str, Policy] = field(default_factory=dict)
    POLICY_BOUNDS: Bounds = field(default_factory=Bounds)
    TENANT_RATE_LIMIT: Rate | None = None
    HOST_RATE_LIMIT: Rate | None = None
    API_RATE_LIMITS: Mapping[str, int] = field(default_factory=lambda: dict(API_RATE_LIMITS))
    URL_CHANGE: str = "keep"
    TENANCY: str | None = None
    ACTOR_RESOLVER: str | None = None
    REQUIRE_HTTPS: bool = True
    EXTRA_PORTS: tuple[int, ...] = ()
    ALLOW_NETWORKS: tuple[str, ...] = ()
    DENY_NETWORKS: tuple[str, ...] = ()
    DENY_HOSTS: tuple[str, ...] | None = None
    NAT64_PREFIXES: tuple[str, ...] = ()
    STATIC_HOSTS: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    CA_BUNDLE: str | None = None
    TRANSPORT: str = "requests"
    SENDER_THREADS: int = 8
    MAX_SENDER_THREADS: int = 256
    PIN_TO_CORE: bool = False
    TESTING: bool = False

    @property
    def relaxed(self) -> bool:
        """Whether loopback, plain HTTP and static hosts may be used: only with DEBUG or TESTING."""
        return self.TESTING or bool(django_settings.DEBUG)


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of the WEBHOOKS dict."""

    key: str
    message: str
    hint: str


def current() -> Settings:
    """Return the settings.

    Raises:
        ConfigurationError: when any value is wrong; the message names the first.
    """
    settings, problems = load()
    if problems:
        raise ConfigurationError(f'WEBHOOKS["{problems[0].key}"]: {problems[0].message}. {problems[0].hint}')
    return settings


@lru_cache(maxsize=1)
def policies() -> Mapping[str, Policy]:
    """Return the presets and the operator's own policies by name; cheap, as the settings are.

    Raises:
        ConfigurationError: as `current` does.
    """
    return MappingProxyType({**PRESETS, **current().POLICIES})


def node_name() -> str:
    """Return what this process calls itself, in 64 characters at most: NODE_NAME, or host and process id."""
    pid = f":{os.getpid()}"
    return current().NODE_NAME or platform.node()[: MAX_NODE_NAME - len(pid)] + pid


@lru_cache(maxsize=1)
def load() -> tuple[Settings, tuple[Problem, ...]]:
    """Read the WEBHOOKS dict; return the settings (defaults where a value is bad) and all faults."""
    raw = getattr(django_settings, "WEBHOOKS", {})
    if not isinstance(raw, Mapping):
        return Settings(), (Problem("WEBHOOKS", "is not a dict", 'Write WEBHOOKS = {"MASTER_KEYS": […]}.'),)
    values: dict[str, Any] = {}
    problems = [_unknown(key) for key in raw if key not in _READERS]
    for key in raw.keys() & _READERS.keys():
        try:
            values[key] = _READERS[key](raw[key])
        except (TypeError, ValueError) as error:
            problems.append(Problem(key, str(error), _HINTS.get(key, "See the settings reference.")))
    values["POLICIES"], faults = _policies(values.get("POLICIES", {}), values.get("POLICY_BOUNDS", Bounds()))
    return Settings(**values), (*problems, *faults)


def _policies(definitions: Mapping[str, Any], bounds: Bounds) -> tuple[dict[str, Policy], list[Problem]]:
    """Build the operator's own policies, which keep to the operator's own bounds."""
    found: dict[str, Policy] = {}
    faults = []
    for name, definition in definitions.items():
        try:
            found[name] = custom_policy(name, definition, PRESETS, bounds)
        except PolicyError as error:
            faults.append(Problem("POLICIES", f'has a fault in "{name}": {error}', _HINTS["POLICIES"]))
    return found, faults


def _unknown(key: str) -> Problem:
    return Problem(str(key), "is not a setting", f"Known settings: {', '.join(_READERS)}.")


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("must be a non-empty string")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("must be True or False")
    return value


def _number(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return value

    return read


def _choice(*names: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return str(value)

    return read


def _optional(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else reader(value)


def _many(reader: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, list | tuple | set | frozenset):
            raise TypeError("must be a list")
        return tuple(reader(item) for item in value)

    return read


def _network(value: Any) -> str:
    return str(ipaddress.ip_network(_text(value)))


def _master_key(value: Any) -> bytes:
    try:
        key = value if isinstance(value, bytes) else base64.b64decode(_text(value), validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError("holds a key that is not base64") from error
    if len(key) != KEY_BYTES:
        raise ValueError(f"holds a key of {len(key)} bytes; {KEY_BYTES} are needed")
    return key


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("must be a dict")
    return dict(value)


def _api_rate_limits(value: Any) -> dict[str, int]:
    if value is None:
        return {}
    given = _mapping(value)
    if given.keys() - API_RATE_LIMITS.keys():
        raise ValueError(f"names buckets that do not exist; there are {', '.join(API_RATE_LIMITS)}")
    read, limits = _number(1, 1_000_000), {**API_RATE_LIMITS, **given}
    return {name: read(limit) for name, limit in limits.items() if limit is not None}


def _node_name(value: Any) -> str:
    if len(_text(value)) > MAX_NODE_NAME:
        raise ValueError(f"must have at most {MAX_NODE_NAME} characters")
    return str(value)


def _hosts(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise TypeError("must be a dict of host name to list of addresses")
    addresses = _many(lambda item: str(ipaddress.ip_address(_text(item))))
    return {_text(name).lower(): addresses(hosts) for name, hosts in value.items()}


_RATE_HINT = 'Write {"per_second": 50, "burst": 100}, or None for no limit.'
_HINTS = {
    "MASTER_KEYS": "Make one with: openssl rand -base64 32",
    "POLICIES": 'Write {"patient": {"base": "standard", "jitter": 0.2}}; see docs/reference/policies.md.',
    "POLICY_BOUNDS": 'Write {"max_attempts": 30}; docs/reference/policies.md lists the bounds.',
    "TENANT_RATE_LIMIT": _RATE_HINT,
    "HOST_RATE_LIMIT": _RATE_HINT,
    "API_RATE_LIMITS": 'Write {"key": 600, "operation": None}, or None for no limit at all.',
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "MASTER_KEYS": _many(_master_key),
    "DATABASE": _text,
    "OUTBOX_DATABASES": _many(_text),
    "QUEUE": _choice(*QUEUES),
    "QUEUE_NAME": _text,
    "SLOW_QUEUE_NAME": _optional(_text),
    "BULK_QUEUE_NAME": _optional(_text),
    "NODE_NAME": _optional(_node_name),
    "REQUIRE_ATOMIC": _flag,
    "API_VERSION": _text,
    "MAX_BODY_BYTES": _number(1_000, 4_000_000),
    "WARN_BODY_BYTES": _number(1_000, 4_000_000),
    "RETENTION_DAYS": _number(1, 3_650),
    "MAX_ENDPOINTS": _number(1, 1_000_000),
    "DEFAULT_POLICY": _text,
    "POLICIES": _mapping,
    "POLICY_BOUNDS": bounds_of,
    "TENANT_RATE_LIMIT": parse_rate,
    "HOST_RATE_LIMIT": parse_rate,
    "API_RATE_LIMITS": _api_rate_limits,
    "URL_CHANGE": _choice(*URL_CHANGES),
    "TENANCY": _optional(_text),
    "ACTOR_RESOLVER": _optional(_text),
    "REQUIRE_HTTPS": _flag,
    "EXTRA_PORTS": _many(_number(1, 65_535)),
    "ALLOW_NETWORKS": _many(_network),
    "DENY_NETWORKS": _many(_network),
    "DENY_HOSTS": _optional(_many(_text)),
    "NAT64_PREFIXES": _many(_network),
    "STATIC_HOSTS": _hosts,
    "CA_BUNDLE": _optional(_text),
    "TRANSPORT": _choice("requests"),
    "SENDER_THREADS": _number(1, 1_000),
    "MAX_SENDER_THREADS": _number(1, 1_000),
    "PIN_TO_CORE": _flag,
    "TESTING": _flag,
}
if set(_READERS) != {f.name for f in fields(Settings)}:  # pragma: no cover - a slip of the author's
    raise RuntimeError("every setting needs a reader")


def _reload(*, setting: str, **_: object) -> None:
    if setting in {"WEBHOOKS", "DEBUG", "ALLOWED_HOSTS"}:
        load.cache_clear()
        policies.cache_clear()


setting_changed.connect(_reload, dispatch_uid="webhooks_app.conf")
