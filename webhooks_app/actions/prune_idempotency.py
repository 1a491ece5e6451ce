"""Prune: idempotency keys that nobody may repeat any more."""

from ..models import IdempotencyRecord
from .sweep import Sweep


def prune_idempotency(sweep: Sweep) -> None:
    """Delete expired keys, oldest first; counted as `idempotency`."""
    expired = IdempotencyRecord.objects.using(sweep.alias).filter(expires_at__lte=sweep.now)
    while sweep.goes_on():
        keys = list(expired.order_by("expires_at").values_list("pk", flat=True)[: sweep.batch])
        # One that is being used anew meanwhile has another expiry, and stays.
        sweep.counts["idempotency"] += expired.filter(pk__in=keys).delete()[0]
        if len(keys) < sweep.batch:
            return
