"""Ordered endpoints: made, filled, and watched for what must never happen in a lane."""

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from webhooks_app.core.attempt import AttemptResult
from webhooks_app.models import Delivery, Endpoint
from webhooks_app.net.transport import Request
from webhooks_app.pipeline.work import Lease

from .copies import copies
from .driving import waiting
from .factories import EndpointFactory, emit_for
from .receiver import OK, Answer, headers_of


def ordered(ordering: str, **values: Any) -> Endpoint:
    """Make an endpoint of this ordering whose window is wide open."""
    return EndpointFactory(ordering=ordering, **{"state__window": 100, **values})


def owned(endpoint: Endpoint, owner: str, count: int = 1, **values: Any) -> list[Delivery]:
    """Make deliveries about one owner, due at an endpoint; oldest first."""
    return waiting(endpoint, count, owner=("order", owner), **values)


def emit_owned(endpoint: Endpoint, owner: str, count: int = 1) -> list[str]:
    """Commit events about one owner; return their ids."""
    return [ref.id for ref in emit_for(endpoint, count, owner=("order", owner))]


def ids_of(rows: Sequence[Delivery]) -> list[str]:
    """Return the event ids of deliveries."""
    return [row.event.public_id for row in rows]


def units_of(held: Lease) -> list[list[int]]:
    """Return the keys of the deliveries in each unit of a lease."""
    return [[job.id for job in unit] for unit in held.units]


def crowd(endpoint: Endpoint, lane: str, count: int) -> None:
    """Write rows that are due in a lane behind all there is, quicker than events could be fanned out."""
    last = Delivery.objects.order_by("-position").values_list("position", flat=True).first() or 0
    now = timezone.now()
    first = Delivery.objects.create(
        endpoint=endpoint,
        event_id=-last - 1,
        priority=Delivery.Priority.ORDERED,
        due_at=now - timedelta(hours=1),
        position=last + 1,
        lane=lane,
        occurred_at=now,
        created_at=now,
        started_at=now,
    )
    copies(first, count - 1, event_id="event_id - n", position="position + n")


def check_lanes() -> None:
    """Check the invariant: the oldest pending row of each lane has a `due_at`, whatever else is parked."""
    rows = Delivery.objects.filter(state="pending", lane__isnull=False).order_by("position")
    heads: dict[tuple[int, str | None], Delivery] = {}
    for row in rows:
        heads.setdefault((row.endpoint_id, row.lane), row)
        assert row.priority == Delivery.Priority.ORDERED
    assert not [head for head in heads.values() if head.due_at is None]


class Watch:
    """A receiver's answer that notes the order of each lane and whether two of its requests overlap.

    `pause` is how long a request takes, in seconds; `answers` are given in turn to every event named.
    """

    def __init__(self, lanes: dict[str, str], *, pause: float = 0.0) -> None:
        self.lanes, self.pause = lanes, pause
        self.answers: dict[str, list[Answer]] = {}
        self.seen: dict[str, list[str]] = defaultdict(list)
        self.overlaps: list[str] = []
        self.most = 0
        self._open: set[str] = set()
        self._lock = threading.Lock()

    def emit(self, endpoint: Endpoint, owner: str, count: int, *, lane: str = "") -> list[str]:
        """Commit events about one owner and note their lane; what is sent at once waits for the note."""
        with self._lock:
            ids = emit_owned(endpoint, owner, count)
            self.lanes.update(dict.fromkeys(ids, lane))
        return ids

    def __call__(self, request: Request) -> AttemptResult:
        event_id = headers_of(request)["webhook-id"]
        with self._lock:
            lane = self.lanes[event_id]
            if lane in self._open:
                self.overlaps.append(lane)
            self._open.add(lane)
            self.most = max(self.most, len(self._open))
            self.seen[lane].append(event_id)
        time.sleep(self.pause)
        with self._lock:
            self._open.discard(lane)
            answers = self.answers.get(event_id)
            answer = answers.pop(0) if answers else OK
        return answer if isinstance(answer, AttemptResult) else answer(request)
