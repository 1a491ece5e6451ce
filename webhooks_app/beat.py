"""The periodic work, ready for Celery beat."""

from typing import Any

from .pipeline.queue import PRUNE, RUN_JOBS, TICK

TICK_SECONDS = 5.0
JOBS_SECONDS = 5.0
PRUNE_SECONDS = 3600.0


def beat_schedule(*, queue: str = "webhooks", bulk_queue: str | None = None) -> dict[str, dict[str, Any]]:
    """Return entries for `beat_schedule`: tick and jobs every 5 seconds, pruning every hour.

    Args:
        queue: the queue of the webhook workers, as in the WEBHOOKS setting QUEUE_NAME.
        bulk_queue: that of recovery, as in BULK_QUEUE_NAME; None = `queue`.

    All are plain intervals and harmless when missed, late or doubled. A tick that waits longer than its
    interval is dropped: the next one sees the same.
    """
    return {
        "webhooks-tick": {
            "task": TICK,
            "schedule": TICK_SECONDS,
            "options": {"queue": queue, "expires": TICK_SECONDS, "ignore_result": True},
        },
        "webhooks-jobs": {
            "task": RUN_JOBS,
            "schedule": JOBS_SECONDS,
            "options": {"queue": bulk_queue or queue, "expires": JOBS_SECONDS, "ignore_result": True},
        },
        "webhooks-prune": {
            "task": PRUNE,
            "schedule": PRUNE_SECONDS,
            "options": {"queue": queue, "expires": PRUNE_SECONDS, "ignore_result": True},
        },
    }
