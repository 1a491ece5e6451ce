"""Celery's names for the steps of the path. Each task is one call; none retries: rows are the schedule."""

import logging
from typing import Any

from celery import shared_task, signals

from .pipeline import runner
from .pipeline.engine import shut_down
from .pipeline.queue import DELIVER, FAN_OUT, PRUNE, TICK

logger = logging.getLogger("webhooks_app.pipeline")

# The longest request an operator may allow, and time to record it.
DRAIN_SECONDS = 65.0
PRUNE_SECONDS = 60.0


@shared_task(name=FAN_OUT, ignore_result=True, acks_late=False)
def fan_out() -> None:
    """Turn committed outbox entries into deliveries."""
    runner.fan_out()


@shared_task(name=DELIVER, ignore_result=True, acks_late=False)
def deliver(endpoint_ids: list[int]) -> None:
    """Send what is due at these endpoints."""
    runner.deliver(endpoint_ids)


@shared_task(name=TICK, ignore_result=True, acks_late=False)
def tick() -> None:
    """Find what a lost hint left behind."""
    runner.tick()


@shared_task(name=PRUNE, ignore_result=True, acks_late=False)
def prune() -> None:
    """Remove what is older than the retention, for at most a minute; the next run goes on."""
    from .actions.prune import prune as remove_old

    remove_old(max_seconds=PRUNE_SECONDS)


@signals.worker_process_shutdown.connect(dispatch_uid="webhooks_app.drain")
@signals.worker_shutdown.connect(dispatch_uid="webhooks_app.drain")
def drain(**_: Any) -> None:
    """At a warm shutdown: lease nothing more, give back what was not sent, record what is open."""
    if not shut_down(DRAIN_SECONDS):
        logger.error("some requests were not recorded in time; they are sent again")
