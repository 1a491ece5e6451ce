"""EndpointConfig: everything about an endpoint that a send needs, opened once per revision."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ..core.policies import Policy
from ..core.sealing import SealingError
from ..core.secrets import SecretError, parse
from ..core.signing import SigningError, SigningKey
from ..models import Endpoint, EndpointSecret
from .policy import policy_of
from .sealing import open_header, open_secret


@dataclass(frozen=True, slots=True)
class Key:
    """A signing key and the moment from which it signs no more."""

    signing: SigningKey
    expires_at: datetime | None
    secret_id: int


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """One revision of an endpoint, ready to send with. `fault` is an error code that stands in the way."""

    id: int
    public_id: str
    revision: int
    kind: str
    url: str
    method: str
    policy: Policy
    keys: tuple[Key, ...] = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    fault: str = ""

    @property
    def shown_url(self) -> str:
        """The URL without its query, which may hold a secret."""
        return self.url.partition("?")[0]

    def signing_keys(self, now: datetime) -> list[SigningKey]:
        """Return the keys that sign now, newest first."""
        return [key.signing for key in self.keys if key.expires_at is None or key.expires_at > now]


# Tuples, not model instances: with ten thousand endpoints the instances would cost a third of a delivery.
_ENDPOINT = ("id", "public_id", "revision", "kind", "url", "method", "policy", "policy_overrides", "headers")
_SECRET = ("id", "endpoint_id", "version", "scheme", "sealed", "expires_at")


def load_configs(alias: str, ids: Collection[int]) -> dict[int, EndpointConfig]:
    """Read endpoints with their secrets; two queries. Endpoints that are gone are left out."""
    secrets: dict[int, list[Any]] = {}
    rows = EndpointSecret.objects.using(alias).filter(endpoint_id__in=ids).order_by("-version")
    for secret in rows.values_list(*_SECRET, named=True):
        secrets.setdefault(secret.endpoint_id, []).append(secret)
    endpoints = Endpoint.objects.using(alias).filter(id__in=ids).values_list(*_ENDPOINT, named=True)
    return {endpoint.id: _config(endpoint, secrets.get(endpoint.id, [])) for endpoint in endpoints}


def _config(endpoint: Any, secrets: list[Any]) -> EndpointConfig:
    keys: tuple[Key, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    fault = ""
    try:
        keys = tuple(_keys(endpoint, secrets))
        headers = tuple(_header(endpoint, header) for header in endpoint.headers)
    except (SealingError, SecretError, SigningError):
        fault = "secret_unavailable"
    except (AttributeError, KeyError, TypeError):
        fault = "invalid_url"  # headers of a form that no action writes; other endpoints are not to suffer
    return EndpointConfig(
        id=endpoint.id,
        public_id=endpoint.public_id,
        revision=endpoint.revision,
        kind=endpoint.kind,
        url=endpoint.url,
        method=endpoint.method,
        policy=policy_of(endpoint),
        keys=keys,
        headers=headers,
        fault=fault or ("" if keys else "secret_unavailable"),
    )


def _keys(endpoint: Any, secrets: list[Any]) -> Iterator[Key]:
    """Open the keys, newest first. An older one that does not open is left out, or no rotation would heal."""
    for place, secret in enumerate(secrets):
        try:
            yield _key(endpoint, secret)
        except (SealingError, SecretError, SigningError):
            if place == 0:
                raise


def _key(endpoint: Any, secret: Any) -> Key:
    text = open_secret(endpoint.public_id, secret.version, secret.sealed)
    return Key(SigningKey(parse(text), secret.scheme), secret.expires_at, secret.id)


def _header(endpoint: Any, header: dict[str, str]) -> tuple[str, str]:
    if header.get("secret"):
        return header["name"], open_header(endpoint.public_id, header["name"], header["sealed"])
    return header["name"], header["value"]
