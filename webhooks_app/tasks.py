"""Celery's names for the steps of the path. Each task is one call; none retries: rows are the schedule."""

import logging
from typing import Any

from celery import shared_task, signals
from django.core.checks import run_checks

from . import conf
from .pipeline import runner
from .pipeline.engine import shut_down
from .pipeline.queue import DELIVER, EXPIRES, FAN_OUT, PRUNE, RUN_JOBS, TICK

logger = logging.getLogger("webhooks_app.pipeline")

# The longest request an operator may allow, and time to record it.
DRAIN_SECONDS = 65.0
PRUNE_SECONDS = 60.0
GREEN_POOLS = ("gevent", "eventlet")


@shared_task(name=FAN_OUT, ignore_result=True, acks_late=False)
def fan_out() -> None:
    """Turn committed outbox entries into deliveries."""
    runner.fan_out()


@shared_task(name=DELIVER, ignore_result=True, acks_late=False)
def deliver(endpoint_ids: list[int], slow: bool = False) -> None:
    """Send what is due at these endpoints; a message of the slow queue says `slow`."""
    runner.deliver(endpoint_ids, slow=slow)


@shared_task(name=TICK, ignore_result=True, acks_late=False)
def tick() -> None:
    """Find what a lost hint left behind."""
    runner.tick()


@shared_task(name=PRUNE, ignore_result=True, acks_late=False)
def prune() -> None:
    """Remove what is older than the retention, for at most a minute; the next run goes on."""
    from .actions.prune import prune as remove_old

    remove_old(max_seconds=PRUNE_SECONDS)


@shared_task(name=RUN_JOBS, ignore_result=True, acks_late=False)
def run_jobs(baton: int | None = None) -> None:
    """Do a slice of the recovery jobs and queue the next one at the tail, so that others get their turn."""
    from .actions.job_relay import run_slice

    following = run_slice(baton)
    if following is not None:
        settings = conf.current()
        queue = settings.BULK_QUEUE_NAME or settings.QUEUE_NAME
        run_jobs.apply_async(
            (following.baton,),
            queue=queue,
            countdown=following.wait or None,
            expires=EXPIRES + following.wait,
            retry=False,
        )


@signals.worker_process_shutdown.connect(dispatch_uid="webhooks_app.drain")
@signals.worker_shutdown.connect(dispatch_uid="webhooks_app.drain")
def drain(**_: Any) -> None:
    """At a warm shutdown: lease nothing more, give back what was not sent, record what is open."""
    if not shut_down(DRAIN_SECONDS):
        logger.error("some requests were not recorded in time; they are sent again")


@signals.worker_init.connect(dispatch_uid="webhooks_app.start")
def refuse_to_start(sender: Any, **_: Any) -> None:
    """End a worker that could not serve the webhook queue; workers of other queues are not our business.

    Raises:
        SystemExit: a system check found an error, or the pool has green threads: one slow database call
            would hold up all of them.
    """
    settings = conf.load()[0]
    ours = {settings.QUEUE_NAME, settings.SLOW_QUEUE_NAME, settings.BULK_QUEUE_NAME}
    if ours.isdisjoint(sender.app.amqp.queues.consume_from):
        return
    errors = [each for each in run_checks(tags=["webhooks"]) if each.is_serious()]
    if errors:
        raise SystemExit("\n".join(f"{each.id}: {each.msg}\n\t{each.hint}" for each in errors))
    pool = sender.pool_cls if isinstance(sender.pool_cls, str) else sender.pool_cls.__module__
    if any(name in pool for name in GREEN_POOLS):
        raise SystemExit(
            f"webhooks_app: a {pool} pool cannot send webhooks. Serve the queue {conf.current().QUEUE_NAME} "
            "with a prefork, threads or solo worker, and keep it out of this worker's -Q."
        )
