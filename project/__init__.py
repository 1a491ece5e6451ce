"""The demo project: a small shop that tells its customers' systems about orders."""

from .celery import app as celery_app

__all__ = ["celery_app"]
