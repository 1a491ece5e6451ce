"""Prune: what ended work and long silence leave behind: jobs, and the buckets of rates nobody uses."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Model, QuerySet

from ..models import Job, RateBucket
from .sweep import Sweep

# A bucket that was left alone for so long is full, and a full one need not be kept.
IDLE = timedelta(days=1)


def prune_jobs(sweep: Sweep) -> None:
    """Delete jobs that ended before the retention."""
    rows = Job.objects.using(sweep.alias).filter(finished_at__lte=sweep.cutoff(None))
    _delete(sweep, "jobs", rows)


def prune_buckets(sweep: Sweep) -> None:
    """Delete the buckets that nobody has taken from for a day."""
    rows = RateBucket.objects.using(sweep.alias).filter(updated_at__lte=sweep.now - IDLE)
    _delete(sweep, "buckets", rows)


def _delete(sweep: Sweep, name: str, rows: QuerySet[Model]) -> None:
    while sweep.goes_on():
        with transaction.atomic(using=sweep.alias):
            chunk = rows.select_for_update(skip_locked=True).order_by("pk")
            keys = list(chunk.values_list("pk", flat=True)[: sweep.batch])
            sweep.counts[name] += rows.filter(pk__in=keys).delete()[0]
        if len(keys) < sweep.batch:
            return
