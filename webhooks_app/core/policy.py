"""What a policy consists of: retry, classification, limits and health rules of an endpoint, as values."""

from dataclasses import dataclass
from typing import Literal

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class AutoDisable:
    """Disable an endpoint that fails for long. Times are in seconds.

    ``failures``       so many in a row are needed at least
    ``span``           how long the clock must have run
    ``start_within``   a failure that comes later than this after the one before it starts the clock anew,
                       as long as the clock does not run yet; None = the clock counts from the first failure
    ``start_span``     the clock runs once so much time lies between its start and the last failure
    ``warnings``       shares of the way to the disabling at which a warning is due, rising
    """

    failures: int
    span: float
    start_within: float | None = None
    start_span: float = 0.0
    warnings: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Breaker:
    """A circuit breaker of one endpoint: while it is open, deliveries wait. Times are in seconds.

    ``failures``              failed attempts in a row that open it
    ``open_seconds``          how long nothing goes out after it opened
    ``probe_seconds``         least time between two rounds of probes while it is open
    ``probes``                requests of one round at most
    ``probes_to_half_open``   good probes in a row that make it half-open; 0 = time alone does, and what goes
                              out while it is half-open are probes
    ``successes_to_close``    good requests in a row that close it; one that fails opens it again
    """

    failures: int
    open_seconds: float = 30.0
    probe_seconds: float = 30.0
    probes: int = 1
    probes_to_half_open: int = 0
    successes_to_close: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Everything that may differ between two endpoints' treatment. Times are in seconds.

    ``waits``             nominal wait after the 1st, 2nd, … failed attempt
    ``jitter``            largest deviation from a wait, as a share of it (0.1 = ±10 %)
    ``jitter_kind``       where it comes from: ``random``, or ``delivery``: fixed per delivery and step
    ``max_wait``          longest wait that jitter or a Retry-After may make
    ``window``            no attempt this long after the schedule began; None = the waits alone decide
    ``time_to_live``      the event is worth nothing this long after the schedule began; None = no such limit
    ``connect_timeout``, ``total_timeout``   of one request, the first within the second
    ``reply_bytes``       how much of a reply is read and kept
    ``retried``           HTTP statuses that are tried again; every other failing status is final
    ``retry_refused``     whether a refused address or URL is tried again
    ``retry_after_on``    statuses whose Retry-After raises the wait (RFC 9110 §10.2.3)
    ``free_deferrals``    how many such waits cost no step of the schedule
    ``honours_control``   whether the reply header ``webhook-delivery`` acts
    ``gone_disables``     whether a 410 disables the endpoint (Standard Webhooks 1.0.0, "Delivery success…")
    ``warns_redirect``    whether a redirect is shown as a warning of the endpoint's health
    ``auto_disable``      when lasting failure disables it; None = never
    ``breaker``           when deliveries are held back from it; None = never
    ``notify_tenant``     whether the tenant's other endpoints hear of operational events
    ``replay_id``         whether a replay keeps the ``webhook-id`` or gets a new one
    ``replay_while_open``   whether a replay is taken while the breaker is open
    ``default_signing``, ``default_format``, ``default_ordering``, ``default_max_in_flight``   for an endpoint
                          whose creator names none
    """

    name: str
    waits: tuple[float, ...]
    jitter: float
    jitter_kind: Literal["random", "delivery", "none"]
    max_wait: float = DAY
    window: float | None = None
    time_to_live: float | None = None
    connect_timeout: float
    total_timeout: float
    reply_bytes: int
    retried: frozenset[int]
    retry_refused: bool
    retry_after_on: frozenset[int]
    free_deferrals: int = 0
    honours_control: bool = True
    gone_disables: bool
    warns_redirect: bool = False
    auto_disable: AutoDisable | None
    breaker: Breaker | None = None
    notify_tenant: bool = False
    replay_id: Literal["same", "new"] = "same"
    replay_while_open: bool = True
    default_signing: tuple[str, ...] = ("v1",)
    default_format: str = "envelope"
    default_ordering: str = "none"
    default_max_in_flight: int = 100

    @property
    def max_attempts(self) -> int:
        """Attempts in a whole schedule, the first included."""
        return len(self.waits) + 1
