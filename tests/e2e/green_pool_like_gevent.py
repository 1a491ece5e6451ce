"""A pool whose module is named like gevent's: stands in for it where gevent is not installed."""

from celery.concurrency import solo


class TaskPool(solo.TaskPool):
    """No green threads either; only the name counts."""
