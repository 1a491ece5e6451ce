"""Keys of the REST API: made by the operator, shown once, stored as a hash, revoked for good."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from .. import conf
from ..ids import new_id
from ..models import ApiKey
from ..pipeline import clock
from . import audit, endpoint_fields
from .actor import SCOPES, Actor, require_operator
from .endpoint_fields import MAX_ID
from .faults import Fault, Faults
from .scope import get_api_key

TOKEN_BYTES = 32
MAX_PERMISSIONS = 50
# Written at most this often: a busy key must not cost a write per request.
USE_NEWS = timedelta(minutes=1)

_PERMISSION = re.compile(r"[a-z][a-z0-9_]*:[a-z][a-z0-9_]*")
_KEY = re.compile(r"key_[0-9A-Z]{26}_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new API key; `key` is the bearer token, which can never be read again."""

    api_key: ApiKey
    key: str = field(repr=False)


def create_api_key(
    actor: Actor,
    *,
    scope: str,
    scope_id: str | None = None,
    permissions: Sequence[str] = (),
    environment: str = "live",
    name: str = "",
    expires_at: datetime | None = None,
) -> CreatedKey:
    """Make a key for a tenant, a partner or the platform.

    Args:
        permissions: `events:write`, `webhooks:read`, `webhooks:manage` and any that event types ask for;
            none by default.
        expires_at: aware; None = never.

    Raises:
        InvalidRequest: naming every value that is refused.
        PermissionDenied: the actor is not the operator; keys do not make keys.
    """
    require_operator(actor)
    faults = Faults()
    faults.check(_scope, scope, scope_id)
    granted = faults.check(_permissions, permissions)
    faults.check(endpoint_fields.environment, environment)
    faults.check(_name, name)
    faults.check(_expires_at, expires_at)
    faults.finish()
    alias, public_id = conf.current().DATABASE, new_id("key")
    key = f"{public_id}_{secrets.token_urlsafe(TOKEN_BYTES)}"
    with transaction.atomic(using=alias):
        now = clock.db_now(alias)
        row = ApiKey.objects.using(alias).create(
            public_id=public_id,
            name=name,
            sha256=_digest(key),
            scope=scope,
            scope_id=scope_id,
            environment=environment,
            permissions=granted,
            created_at=now,
            expires_at=expires_at,
        )
        details = {"scope": scope, "permissions": row.permissions, "environment": environment}
        audit.record(actor, "api_key.created", row, details=details, now=now)
    return CreatedKey(row, key)


def revoke_api_key(actor: Actor, public_id: str) -> ApiKey:
    """Revoke a key for good; revoked already: nothing changes.

    Raises:
        NotFound: `api_key_not_found`.
        PermissionDenied: the actor is not the operator.
    """
    require_operator(actor)
    alias = conf.current().DATABASE
    row = get_api_key(actor, public_id)
    with transaction.atomic(using=alias):
        now = clock.db_now(alias)
        if ApiKey.objects.using(alias).filter(pk=row.pk, revoked_at__isnull=True).update(revoked_at=now):
            audit.record(actor, "api_key.revoked", row, now=now)
    row.refresh_from_db(using=alias)
    return row


def authenticate(key: str, *, request_id: str = "") -> Actor | None:
    """Return who a bearer token stands for; None when it is unknown, revoked or expired.

    The look-up is by the hash of a random token, so its time tells nothing about other tokens.
    """
    if not _KEY.fullmatch(key):
        return None
    alias = conf.current().DATABASE
    now = clock.db_now(alias)
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    row = ApiKey.objects.using(alias).filter(valid, sha256=_digest(key), revoked_at__isnull=True).first()
    if row is None:
        return None
    if row.last_used_at is None or row.last_used_at < now - USE_NEWS:
        ApiKey.objects.using(alias).filter(pk=row.pk).update(last_used_at=now)
    return Actor(
        kind="key",
        id=row.public_id,
        scope=row.scope,
        scope_id=row.scope_id,
        environment=row.environment,
        permissions=frozenset(row.permissions),
        request_id=request_id,
    )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _scope(scope: object, scope_id: object) -> None:
    if scope not in SCOPES:
        raise Fault("scope", f"must be one of {', '.join(SCOPES)}")
    if scope == "platform" and scope_id is not None:
        raise Fault("scope_id", "must be left out for the platform")
    if scope != "platform":
        endpoint_fields.text("scope_id", scope_id, at_most=MAX_ID)


def _permissions(given: object) -> list[str]:
    if not isinstance(given, list | tuple | set | frozenset) or len(given) > MAX_PERMISSIONS:
        raise Fault("permissions", f"must be a list of at most {MAX_PERMISSIONS} names")
    for name in given:
        if not isinstance(name, str) or len(name) > MAX_ID or not _PERMISSION.fullmatch(name):
            raise Fault("permissions", "must hold names such as webhooks:manage")
    return sorted(set(given))


def _name(name: object) -> None:
    endpoint_fields.text("name", name, at_least=0, at_most=100)


def _expires_at(moment: object) -> None:
    if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
        raise Fault("expires_at", "must be a date and time with a time zone")
