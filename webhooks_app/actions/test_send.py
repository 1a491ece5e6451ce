"""Test delivery: one synchronous request that proves the way and moves nothing."""

from datetime import datetime

from django.db import transaction

from .. import conf
from ..destinations import https
from ..destinations.base import Message, Sent
from ..destinations.config import EndpointConfig, load_configs
from ..ids import new_id, new_token
from ..models import Attempt, Endpoint
from ..pipeline import clock
from ..pipeline.own_body import own_body
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .retarget import confirm
from .scope import get_endpoint, webhook_not_found
from .tenancy import check_not_suspended

EVENT_TYPE = "webhook.test"
DATA = {"message": "hello"}


def test_send(actor: Actor, endpoint: Endpoint) -> Attempt:
    """Send one `webhook.test` event and return the attempt, whatever came of it.

    Works on disabled and paused endpoints. Never retried, fanned out or replayed; health, schedule, breaker
    and window stay as they are. Only an endpoint that waits for its new URL to prove itself (disabled as
    `url_changed`) is enabled by a success. Waits up to the policy's total timeout, so call it outside of a
    transaction.

    Raises:
        Conflict: `tenant_suspended`.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:manage`.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    fresh = get_endpoint(actor, endpoint.public_id)
    check_not_suspended(alias, fresh)
    config = load_configs(alias, [fresh.pk]).get(fresh.pk)
    if config is None:
        raise webhook_not_found()
    now = clock.db_now(alias)
    attempt = Attempt(id=new_token(), endpoint=fresh, number=1, trigger=Attempt.Trigger.TEST, created_at=now)
    message = _message(fresh, attempt.public_id, now)
    _note(attempt, config, message, https.send(config, message))
    with transaction.atomic(using=alias):
        attempt.save(using=alias, force_insert=True)
        details = {"attempt": attempt.public_id, "status": attempt.status, "error": attempt.error}
        audit.record(actor, "webhook.tested", fresh, details=details)
    if not attempt.error:
        confirm(actor, fresh, config.url, attempt=attempt.public_id)
    return attempt


def _message(endpoint: Endpoint, attempt_id: str, now: datetime) -> Message:
    event_id = new_id("evt")
    body = own_body(event_id, EVENT_TYPE, DATA, tenant_id=endpoint.tenant_id, at=now)
    return Message(event_id, EVENT_TYPE, body, attempt_id, 1, int(now.timestamp()))


def _note(attempt: Attempt, config: EndpointConfig, message: Message, sent: Sent) -> None:
    result = sent.result
    attempt.event_id, attempt.event_type = message.event_id, message.event_type
    attempt.status = Attempt.Status.SUCCEEDED if result.ok else Attempt.Status.FAILED
    attempt.error, attempt.detail = result.error, result.detail
    attempt.http_status, attempt.duration_ms = result.http_status, result.duration_ms
    attempt.url, attempt.target_ip = config.shown_url, result.target_ip
    attempt.body_sha256, attempt.signature = sent.body_sha256, sent.signature
    attempt.reply_headers, attempt.reply_body = list(result.headers), result.body
