"""Hasten: what waits at an endpoint comes due, at once where it is little, else in the background."""

from datetime import datetime

from django.db.models import Max

from .. import conf
from ..core.states import ENDED, PENDING
from ..models import Delivery, Endpoint, EndpointState, Event, Job
from ..pipeline import clock
from ..pipeline.hasten import hasten as hasten_rows
from ..pipeline.job_rows import lock_orderings
from ..pipeline.transactions import Tx, reading
from . import jobs
from .actor import Actor
from .ending import unleased
from .job_steps import BATCH, Portion, Written
from .key_ranges import walk

# Whoever asks holds the lock of the state row, and the path waits for it.
AT_ONCE = 500


def hasten(actor: Actor, endpoint: Endpoint) -> None:
    """Make the open deliveries of a locked endpoint due; more than 500 are left to a job.

    Those of a disabled endpoint keep their time: once due, they would end.
    """
    alias = conf.current().DATABASE
    if not EndpointState.objects.using(alias).get(pk=endpoint.pk).enabled:
        return
    now = clock.db_now(alias)
    keys = _later(alias, endpoint.pk, now)
    if len(keys) <= AT_ONCE:
        with reading(alias) as tx:
            hasten_rows(tx, keys, now)
        return
    last = Event.objects.using(alias).aggregate(last=Max("pk"))["last"] or 0
    jobs.begin(
        actor,
        Job.Kind.HASTEN,
        endpoint=endpoint,
        total=None,
        params={"last": last},
        action="webhook.hastening_begun",
    )


def _later(alias: str, endpoint_id: int, now: datetime) -> list[int]:
    """Return deliveries that are due later, some more than AT_ONCE at most; each part is one of the index."""
    rows = Delivery.objects.using(alias).filter(
        unleased(now), endpoint_id=endpoint_id, state=PENDING, due_at__gt=now
    )
    found: list[int] = []
    for priority in Delivery.Priority.values:
        part = rows.filter(priority=priority).order_by("due_at", "id")
        found += part.values_list("pk", flat=True)[: AT_ONCE + 1]
    return found


class HastenSteps:
    """Walks the endpoint's deliveries by event, so that what fails anew meanwhile is not hastened again."""

    def look(self, alias: str, job: Job) -> Portion:
        """Find the next deliveries that are due later."""
        last = int(job.params["last"])
        rows = Delivery.objects.using(alias).filter(
            endpoint_id=job.endpoint_id or 0, due_at__gt=clock.db_now(alias)
        )
        # Said this way, or else the index of the open ones serves, all of which would be sorted each time.
        rows = rows.exclude(state__in=sorted(str(state) for state in ENDED)).order_by("event_id")

        def read(low: int, high: int, limit: int) -> list[tuple[int, int]]:
            part = rows.filter(event_id__gt=low, event_id__lte=high)
            return list(part.values_list("event_id", "pk")[:limit])

        found = walk(read, lambda row: row[0], after=job.cursor, last=last, limit=BATCH)
        return Portion([key for _, key in found.rows], found.reached, found.reached >= last)

    def write(self, tx: Tx, job: Job, portion: Portion, now: datetime) -> Written:
        """Make them due. A disabled endpoint stops the job; of a deleted one everything is skipped."""
        key = job.endpoint_id or 0
        orderings = lock_orderings(tx, [key])
        if key not in orderings:
            return Written(skipped=len(portion.rows))
        if orderings[key] is None:
            return Written(stop="webhook_disabled")
        done = hasten_rows(tx, portion.rows, now)
        return Written(done, len(portion.rows) - done, {key} if done else set())
