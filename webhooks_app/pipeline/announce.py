"""What the path tells others after a commit: log lines, signals, wakes."""

import logging
from collections.abc import Iterable
from datetime import datetime

from ..models import Attempt, Delivery, Endpoint
from ..signals import attempt_recorded, delivery_ended, endpoint_disabled
from . import doorbell
from .judge import Judged
from .record import Recorded
from .work import Ended

logger = logging.getLogger("webhooks_app.deliveries")


def recorded(result: Recorded, now: datetime) -> None:
    """Tell of a committed record."""
    if attempt_recorded.has_listeners(Attempt):
        for each in result.attempts:
            _attempt(each)
    ended(result.ended, now)
    for endpoint_id, reason in result.disabled:
        logger.warning("endpoint %s was disabled: %s", endpoint_id, reason)
        endpoint_disabled.send_robust(sender=Endpoint, endpoint_id=endpoint_id, reason=reason)
    doorbell.ring(fan_out=bool(result.disabled), endpoint_ids=result.wake, later=result.later)


def _attempt(each: Judged) -> None:
    content = each.done.content
    attempt_recorded.send_robust(
        sender=Attempt,
        endpoint_id=each.job.endpoint_id,
        event_id=content.event_id if content else "",
        event_type=content.type if content else "",
        number=each.job.number,
        status=each.outcome.attempt_status,
        error=each.outcome.error,
        http_status=each.result.http_status,
        duration_ms=each.result.duration_ms,
    )


def ended(deliveries: Iterable[Ended], now: datetime) -> None:
    """Tell of deliveries that ended otherwise than delivered: one warning each, without URL or payload."""
    for each in deliveries:
        logger.warning(
            "delivery %d of event %d to endpoint %d ended as %s after %d attempts: %s (event is %d s old)",
            each.delivery_id,
            each.event_id,
            each.endpoint_id,
            each.state,
            each.attempts,
            each.error,
            now.timestamp() - each.occurred,
        )
        if delivery_ended.has_listeners(Delivery):
            delivery_ended.send_robust(
                sender=Delivery,
                endpoint_id=each.endpoint_id,
                event_id=each.event_id,
                state=each.state,
                error=each.error,
                attempts=each.attempts,
            )


def wake(endpoint_ids: Iterable[int]) -> None:
    """Ask for another look at these endpoints, at the tail of the queue."""
    doorbell.ring(endpoint_ids=endpoint_ids)


def later(endpoint_ids: Iterable[int]) -> None:
    """Ask for another look in a moment: there is no sender to lend, or somebody has the row locked."""
    doorbell.ring(later=dict.fromkeys(endpoint_ids, 1.0))
