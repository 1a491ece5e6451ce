"""Values that travel between the steps of the path."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, TypeAlias
from uuid import UUID

from ..core.decide import Trigger
from ..core.ids import attempt_id, delivery_id
from ..core.states import PENDING
from ..destinations.base import Sent
from ..models import Delivery
from .gates import Gate

LIVE = (Delivery.Priority.LIVE, Delivery.Priority.ORDERED)


@dataclass(slots=True)
class Job:
    """A claimed delivery; not frozen because thousands are made every second. Times are seconds since 1970.

    `started` is when its schedule began, `due` the moment it was waiting for. `generation` is its endpoint's
    at the claim; results of an older one are ignored. A ping, which probes an endpoint that has nothing due,
    is no delivery: its keys are negative.
    """

    id: int
    endpoint_id: int
    event_id: int
    attempts: int
    step: int
    deferrals: int
    lapses: int
    occurred: float
    created: float
    started: float
    expires: float | None
    generation: int
    priority: int = 0
    lane: str | None = None
    due: float | None = None
    trigger: Trigger = "schedule"
    state: str = PENDING

    @property
    def is_ping(self) -> bool:
        """Whether no delivery stands behind it."""
        return self.id < 0

    @property
    def number(self) -> int:
        """The number of the attempt this claim is for."""
        return self.attempts + 1


@dataclass(frozen=True, slots=True)
class Ended:
    """A delivery that the path ended without a request."""

    delivery_id: int
    endpoint_id: int
    event_id: int
    state: str
    error: str
    attempts: int
    occurred: float
    created: float

    @property
    def public_id(self) -> str:
        """The `dlv_` id."""
        return delivery_id(self.delivery_id, datetime.fromtimestamp(self.created, UTC))


@dataclass(frozen=True, slots=True)
class News:
    """A change of an endpoint's health that people are told of; `kind` is the audit's action."""

    kind: str
    endpoint_id: int
    reason: str
    data: Mapping[str, Any] = field(default_factory=dict)


# Jobs that one sender does one after another; all but those of a lane go alone.
Unit: TypeAlias = tuple[Job, ...]


@dataclass(slots=True, kw_only=True)
class Lease:
    """Deliveries claimed together. `claimed_at` is database time, `mark` the monotonic clock at that moment.

    `more` are endpoints that have, or may have, more due; `later` those worth a look in so many seconds,
    because there was no sender or no token; `resting` those whose bulk work was left out; `slow` those that
    another queue serves; `stuck` those whose state row somebody has locked. `reported` are the probes that
    are recorded, `renewed` the later ends that the claim was given at endpoints.
    """

    token: UUID
    claimed_at: datetime
    until: datetime
    mark: float
    units: tuple[Unit, ...] = ()
    lost: tuple[Job, ...] = ()
    ended: tuple[Ended, ...] = ()
    gates: Mapping[int, Gate] = field(default_factory=dict)
    more: frozenset[int] = frozenset()
    later: Mapping[int, float] = field(default_factory=dict)
    resting: frozenset[int] = frozenset()
    slow: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    reported: set[int] = field(default_factory=set)
    renewed: dict[int, datetime] = field(default_factory=dict)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every job of the units."""
        return tuple(chain.from_iterable(self.units))

    @property
    def is_live(self) -> bool:
        """Whether new events are among them, or those of lanes, which may be new; a ping is none."""
        return any(unit[0].priority in LIVE and not unit[0].is_ping for unit in self.units)

    @property
    def followed(self) -> set[int]:
        """The keys of jobs behind which another goes: their end frees no place."""
        return {job.id for unit in self.units for job in unit[:-1]}

    def now(self, monotonic: float) -> datetime:
        """Return database time at a later moment of the monotonic clock (seconds)."""
        return self.claimed_at + timedelta(seconds=monotonic - self.mark)

    def seconds_left(self, monotonic: float, endpoint_id: int | None = None) -> float:
        """Return how long the claim still holds, in seconds; without an endpoint, what holds longest."""
        if endpoint_id is None:
            until = max([self.until, *self.renewed.values()])
        else:
            until = self.renewed.get(endpoint_id, self.until)
        return (until - self.claimed_at).total_seconds() - (monotonic - self.mark)

    def attempt_id(self, job: Job) -> UUID:
        """Return the id of the attempt that this lease makes for a job."""
        return attempt_id(self.token, job.id)


@dataclass(frozen=True, slots=True)
class Content:
    """What a delivery sends: the event's public id, type and exact bytes (None: erased or gone).

    `retention_days` are those of the event's tenant; None where they are of no account.
    """

    event_id: str
    type: str
    body: bytes | None
    retention_days: int | None = None


@dataclass(slots=True)
class Done:
    """What became of a claimed delivery. `sent` is None when it was released without a request."""

    job: Job
    content: Content | None
    sent: Sent | None
    finished_at: datetime
