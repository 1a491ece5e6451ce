"""Audit: one row per action, in the action's own transaction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .. import conf
from ..ids import new_id
from ..models import ApiKey, AuditEntry, Endpoint, Job
from ..pipeline import clock
from .actor import Actor

_NOTHING: Mapping[str, Any] = {}


def record(
    actor: Actor,
    action: str,
    target: Endpoint | ApiKey | Job | str | None = None,
    *,
    details: Mapping[str, Any] = _NOTHING,
    now: datetime | None = None,
) -> AuditEntry:
    """Write down who did what to whom.

    Args:
        action: noun and past participle, `webhook.updated`.
        target: the endpoint, key or job acted upon, or the id of a tenant; None for maintenance of the whole
            installation.
        details: ids, names and settings as JSON; never payloads, secrets, header values, or more of a URL
            than its host, which is all of it that is certainly no secret.
        now: the database's time; asked for when left out.
    """
    alias = conf.current().DATABASE
    return AuditEntry.objects.using(alias).create(
        public_id=new_id("aud"),
        action=action,
        actor_kind=actor.kind,
        actor_id=actor.id,
        request_id=actor.request_id,
        details=dict(details),
        created_at=now or clock.db_now(alias),
        **_target(target),
    )


def _target(target: Endpoint | ApiKey | Job | str | None) -> dict[str, Any]:
    if target is None:
        return {"target_type": "installation", "target_id": ""}
    if isinstance(target, str):
        return {"target_type": "tenant", "target_id": target, "tenant_id": target}
    if isinstance(target, Endpoint | Job):
        owner = {"tenant_id": target.tenant_id, "partner_id": target.partner_id}
        kind = "webhook" if isinstance(target, Endpoint) else "job"
        return {"target_type": kind, "target_id": target.public_id, **owner}
    owner = {f"{target.scope}_id": target.scope_id} if target.scope_id is not None else {}
    return {"target_type": "api_key", "target_id": target.public_id, **owner}
