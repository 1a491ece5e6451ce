"""Step 3b of the path: one request per claimed delivery. No transaction is open here."""

import time
from collections.abc import Mapping

from ..core.attempt import AttemptResult
from ..core.ids import format_id
from ..destinations import https
from ..destinations.base import Message, Sent
from ..destinations.config import EndpointConfig
from .retention import leaves_until
from .work import Content, Done, Job, Lease

# A request may start only when this much of the claim is left beyond its own time limit.
SPARE_SECONDS = 2.0


def send_job(
    lease: Lease, job: Job, config: EndpointConfig | None, content: Content | None, *, stopping: bool = False
) -> Done:
    """Send one claimed delivery; never raises.

    It is given back unattempted when the claim could lapse before the request ends, when its body cannot be
    read just now (`content` None), or when the process is stopping.
    """
    started = time.monotonic()
    gate = lease.gates[job.endpoint_id]
    left = lease.seconds_left(started, job.endpoint_id)
    too_late = left <= gate.policy.total_timeout + SPARE_SECONDS
    if too_late or stopping or content is None:
        return Done(job, content, None, lease.now(started))
    sent = _send(lease, job, config, content, started=started)
    return Done(job, content, sent, lease.now(time.monotonic()))


def _send(lease: Lease, job: Job, config: EndpointConfig | None, content: Content, *, started: float) -> Sent:
    now = lease.now(started).timestamp()
    if content.body is None or now >= leaves_until(job, lease.gates[job.endpoint_id], content):
        return Sent(AttemptResult(error="event_unavailable"))
    if config is None:
        return Sent(AttemptResult(error="endpoint_deleted"))
    message = Message(
        event_id=content.event_id,
        event_type=content.type,
        body=content.body,
        attempt_id=format_id("att", lease.attempt_id(job).int),
        number=job.number,
        timestamp=int(now),
    )
    return https.send(config, message)


def lost(lease: Lease, job: Job, content: Content | None) -> Done:
    """Return the outcome of a delivery whose worker died again and again."""
    return Done(job, content, Sent(AttemptResult(error="worker_lost")), lease.claimed_at)


class Configs:
    """Endpoint configurations by key and revision, kept while they are current; the newest few thousand."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._known: dict[int, EndpointConfig] = {}

    def missing(self, revisions: Mapping[int, int]) -> list[int]:
        """Return the endpoints whose configuration is unknown or of another revision."""
        return [
            endpoint_id
            for endpoint_id, revision in revisions.items()
            if (known := self._known.get(endpoint_id)) is None or known.revision != revision
        ]

    def add(self, configs: Mapping[int, EndpointConfig]) -> None:
        """Keep these; the oldest make room."""
        for endpoint_id, config in configs.items():
            self._known.pop(endpoint_id, None)
            self._known[endpoint_id] = config
        while len(self._known) > self._size:
            del self._known[next(iter(self._known))]

    def get(self, endpoint_id: int) -> EndpointConfig | None:
        """Return the configuration of an endpoint."""
        return self._known.get(endpoint_id)
