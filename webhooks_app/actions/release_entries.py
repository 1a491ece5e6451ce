"""Release: outbox entries that a failing fan-out set aside are tried again, once the cause is mended."""

from collections.abc import Collection

from django.db import transaction

from .. import conf
from ..models import OutboxEntry
from ..pipeline import doorbell
from . import audit
from .actor import Actor, require_operator


def release_entries(actor: Actor, *, outbox_alias: str, ids: Collection[int]) -> int:
    """Let entries that were set aside wait for the fan-out again; return how many.

    Others are left alone. One whose event id belongs to another event will be set aside again at once.

    Args:
        outbox_alias: the database they are in.
        ids: their keys.

    Raises:
        PermissionDenied: not the operator.
    """
    require_operator(actor)
    with transaction.atomic(using=outbox_alias), transaction.atomic(using=conf.current().DATABASE):
        aside = OutboxEntry.objects.using(outbox_alias).filter(
            pk__in=ids, set_aside_at__isnull=False, dispatched_at__isnull=True
        )
        event_ids = sorted(aside.select_for_update().values_list("event_id", flat=True))
        aside.update(set_aside_at=None, failures=0)
        if event_ids:
            details = {"outbox": outbox_alias, "event_ids": event_ids}
            audit.record(actor, "outbox.released", details=details)
            doorbell.ring_on_commit(outbox_alias, fan_out=True)
    return len(event_ids)
