"""A caller's fingerprint: what cursors, idempotency keys and counters of requests are bound to."""

import hashlib
import json

from ..actions.actor import Actor


def caller_mark(actor: Actor) -> str:
    """Return SHA-256, as 64 hex digits, over everything that tells one caller from another."""
    who = [actor.kind, actor.id, actor.scope, actor.scope_id, actor.environment]
    return hashlib.sha256(json.dumps(who).encode()).hexdigest()
