"""What the path tells others after a commit: log lines, signals, wakes."""

import logging
import time
from collections.abc import Collection, Iterable
from datetime import datetime

from django.db import DatabaseError, InterfaceError
from django.dispatch import Signal

from ..conf import current
from ..models import Attempt, Delivery, Endpoint, Event
from ..signals import (
    attempt_recorded,
    breaker_changed,
    delivery_ended,
    endpoint_disabled,
    endpoint_recovered,
    endpoint_warned,
)
from . import doorbell
from .follow_up import Recorded
from .judge import Judged
from .work import Ended, Lease, News

logger = logging.getLogger("webhooks_app.deliveries")

# Seconds until another look at an endpoint whose state row somebody has locked.
STUCK_WAIT = 1.0


def recorded(result: Recorded, now: datetime) -> None:
    """Tell of a committed record; the wakes first, for they matter most."""
    doorbell.ring(fan_out=result.events, endpoint_ids=result.wake, later=result.later)
    _unsealed(result.attempts)
    if attempt_recorded.has_listeners(Attempt):
        names = _endpoint_names({each.job.endpoint_id for each in result.attempts})
        for each in result.attempts:
            _attempt(each, names.get(each.job.endpoint_id, ""))
    ended(result.ended, now)
    changed(result.news)


def leased(claim: Lease) -> None:
    """Tell of a committed lease: whom to look at again, and what it ended or changed."""
    later = {**claim.later, **dict.fromkeys(claim.stuck, STUCK_WAIT)}
    doorbell.ring(later=later, slow=claim.slow)
    ended(claim.ended, claim.claimed_at)


def _attempt(each: Judged, endpoint_id: str) -> None:
    content = each.done.content
    attempt_recorded.send_robust(
        sender=Attempt,
        endpoint_id=endpoint_id,
        event_id=content.event_id if content else "",
        event_type=content.type if content else "",
        number=each.job.number,
        status=each.outcome.attempt_status,
        error=each.outcome.error,
        http_status=each.result.http_status,
        duration_ms=each.result.duration_ms,
    )


def _unsealed(attempts: Iterable[Judged]) -> None:
    """Say that secrets do not open, at most once a minute: nothing is sent until an operator acts."""
    global _next_word_at
    closed = {each.job.endpoint_id for each in attempts if each.outcome.error == "secret_unavailable"}
    now = time.monotonic()
    if closed and now >= _next_word_at:
        _next_word_at = now + 60.0
        names = ", ".join(sorted(_endpoint_names(closed).values())[:10])
        logger.error("no master key opens the secrets of webhook %s; see webhooks_doctor", names)


_next_word_at = 0.0


def changed(news: Collection[News]) -> None:
    """Tell of changes of health: one warning in the log each, and a signal."""
    names = _endpoint_names({each.endpoint_id for each in news}) if news else {}
    for each in news:
        public_id = names.get(each.endpoint_id, "")
        logger.log(_LEVELS.get(each.kind, logging.WARNING), _LINES[each.kind], public_id, each.reason)
        signal, values = _SIGNALS[each.kind]
        signal.send_robust(sender=Endpoint, endpoint_id=public_id, reason=each.reason, **values)


_LEVELS = dict.fromkeys(
    ("webhook.recovered", "webhook.breaker_half_opened", "webhook.breaker_closed"), logging.INFO
)
_LINES = {
    "webhook.disabled": "webhook %s was disabled: %s",
    "webhook.warned": "webhook %s is not well: %s",
    "webhook.recovered": "webhook %s is well again: %s",
    "webhook.breaker_opened": "webhook %s fails (%s); its deliveries are held and it is probed",
    "webhook.breaker_half_opened": "webhook %s is tried again (held for %s)",
    "webhook.breaker_closed": "webhook %s gets everything again (was held for %s)",
}
_SIGNALS: dict[str, tuple[Signal, dict[str, str]]] = {
    "webhook.disabled": (endpoint_disabled, {}),
    "webhook.warned": (endpoint_warned, {}),
    "webhook.recovered": (endpoint_recovered, {}),
    "webhook.breaker_opened": (breaker_changed, {"state": "open"}),
    "webhook.breaker_half_opened": (breaker_changed, {"state": "half_open"}),
    "webhook.breaker_closed": (breaker_changed, {"state": "closed"}),
}


def ended(deliveries: Collection[Ended], now: datetime) -> None:
    """Tell of deliveries that ended otherwise than delivered: one warning each, without URL or payload."""
    if not deliveries:
        return
    endpoints = _endpoint_names({each.endpoint_id for each in deliveries})
    events = _event_names({each.event_id for each in deliveries})
    for each in deliveries:
        endpoint_id, event_id = endpoints.get(each.endpoint_id, ""), events.get(each.event_id, "")
        logger.warning(
            "delivery %s of event %s to webhook %s ended as %s after %d attempts: %s (event is %d s old)",
            each.public_id,
            event_id,
            endpoint_id,
            each.state,
            each.attempts,
            each.error or "none",
            now.timestamp() - each.occurred,
        )
        delivery_ended.send_robust(
            sender=Delivery,
            endpoint_id=endpoint_id,
            event_id=event_id,
            state=each.state,
            error=each.error,
            attempts=each.attempts,
        )


def _endpoint_names(keys: Collection[int]) -> dict[int, str]:
    return _names(Endpoint, keys)


def _event_names(keys: Collection[int]) -> dict[int, str]:
    return _names(Event, keys)


def _names(model: type[Endpoint] | type[Event], keys: Collection[int]) -> dict[int, str]:
    """Return public ids; the keys themselves while the database does not answer."""
    try:
        rows = model._default_manager.using(current().DATABASE).filter(pk__in=keys)
        return dict(rows.values_list("pk", "public_id"))
    except (DatabaseError, InterfaceError):
        return {key: str(key) for key in keys}


def wake(endpoint_ids: Iterable[int], *, slow: bool = False) -> None:
    """Ask for another look at these endpoints, at the tail of the queue, or of that of the slow ones."""
    if slow and current().SLOW_QUEUE_NAME is not None:
        doorbell.ring(slow=endpoint_ids)
    else:
        doorbell.ring(endpoint_ids=endpoint_ids)
