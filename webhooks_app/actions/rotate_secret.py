"""Rotate the signing secret: a new key signs at once, the older ones sign along until the overlap ends."""

import os
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .. import conf
from ..core.secrets import generate_from
from ..destinations.sealing import seal_secret
from ..exceptions import Conflict
from ..models import Endpoint, EndpointSecret
from ..pipeline import clock
from . import audit, endpoint_fields
from .actor import WEBHOOKS_MANAGE, Actor, require
from .endpoint_changes import change
from .faults import Fault, Faults
from .locking import locked
from .register_endpoint import SECRET_BYTES

MAX_OVERLAP_HOURS = 168
# Every key adds a signature to each request.
MAX_KEYS = 5


@dataclass(frozen=True, slots=True)
class Rotated:
    """The new secret, which can never be read again, and when the previous one ends (None: it has ended)."""

    secret: str = field(repr=False)
    version: int
    previous_expires_at: datetime | None


def rotate_secret(
    actor: Actor, endpoint: Endpoint, *, overlap_hours: int = 24, secret: str | None = None
) -> Rotated:
    """Give the endpoint a new secret; every older key ends after `overlap_hours` at the latest.

    Args:
        overlap_hours: 0 to 168; 0 destroys the older keys at once, for a secret that leaked.
        secret: an existing `whsec_…` to take over; made when left out.

    Raises:
        InvalidRequest: overlap or secret are refused.
        Conflict: `too_many_secrets`, because more than five keys would sign.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    faults = Faults()
    faults.check(_overlap, overlap_hours)
    chosen = generate_from(os.urandom(SECRET_BYTES))
    if secret is not None:
        chosen = faults.check(endpoint_fields.secret, secret) or chosen
    faults.finish()
    alias = conf.current().DATABASE
    with locked(actor, endpoint) as (fresh, _):
        now = clock.db_now(alias)
        until = now + timedelta(hours=overlap_hours)
        version = _end_older(alias, fresh, now=now, until=until) + 1
        EndpointSecret.objects.using(alias).create(
            endpoint=fresh,
            version=version,
            sealed=seal_secret(fresh.public_id, version, chosen),
            created_at=now,
        )
        change(alias, fresh, now)
        details = {"version": version, "overlap_hours": overlap_hours}
        audit.record(actor, "webhook.secret_rotated", fresh, details=details, now=now)
    return Rotated(chosen, version, until if until > now else None)


def _overlap(hours: object) -> None:
    if isinstance(hours, bool) or not isinstance(hours, int) or not 0 <= hours <= MAX_OVERLAP_HOURS:
        raise Fault("overlap_hours", f"must be a whole number from 0 to {MAX_OVERLAP_HOURS}")


def _end_older(alias: str, endpoint: Endpoint, *, now: datetime, until: datetime) -> int:
    """Let the existing keys end at `until`, destroy those that are over; return the last version."""
    rows = EndpointSecret.objects.using(alias).filter(endpoint=endpoint)
    last = rows.order_by("-version").values_list("version", flat=True).first() or 0
    rows.exclude(expires_at__lt=until).update(expires_at=until)
    rows.filter(expires_at__lte=now).delete()
    if rows.count() >= MAX_KEYS:
        raise Conflict(
            f"{MAX_KEYS} secrets of this webhook sign already",
            code="too_many_secrets",
            fix="Wait for an overlap to end, or rotate with overlap_hours 0, which ends all older secrets.",
        )
    return last
