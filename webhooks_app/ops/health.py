"""How an endpoint does: what its state row says, and what its newest attempts and its backlog add to that."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..core.health import HealthFacts, progress
from ..destinations.policy import policy_of
from ..models import Endpoint, EndpointState
from .backlog import backlog_seconds
from .sample import Sample, sample


@dataclass(frozen=True, slots=True)
class Breaker:
    """The breaker: its ``state``, ``since`` when, the error code that opened it, and how it goes on.

    ``successes`` counts the good probes, or while half-open the good requests, in a row. ``since`` is None
    for one that has never opened since the endpoint was last enabled.
    """

    state: str
    since: datetime | None
    reason: str | None
    next_probe_at: datetime | None
    successes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rows of an endpoint and its state say of its health, without another query.

    ``disable_progress`` is how near lasting failure has brought the endpoint to being disabled: 0 to 1; None
    when its policy does not disable. ``warnings`` of its policy were given about the present failures.
    ``health_warning`` is an error code that an operator should look at. ``latency_ms`` is smoothed.
    ``window`` is how many requests it may have open now, its ``max_in_flight`` considered.
    """

    endpoint: Endpoint
    enabled: bool
    disabled_reason: str | None
    disabled_at: datetime | None
    paused_at: datetime | None
    breaker: Breaker
    consecutive_failures: int
    failing_since: datetime | None
    disable_progress: float | None
    warnings: int
    health_warning: str | None
    last_success_at: datetime | None
    last_failure_at: datetime | None
    latency_ms: int | None
    window: int
    hold_until: datetime | None

    @property
    def paused(self) -> bool:
        """Whether somebody holds its deliveries."""
        return self.paused_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Facts):
    """The facts, a sample of the newest attempts, and how long the backlog waits by now."""

    sample: Sample
    backlog_seconds: float


def health(alias: str, endpoint: Endpoint, now: datetime) -> Health:
    """Return an endpoint's health; two queries, both bounded. The endpoint comes with its state."""
    return Health(
        **_known(endpoint, now),
        sample=sample(alias, endpoint.pk, now),
        backlog_seconds=backlog_seconds(alias, endpoint.pk, now),
    )


def facts(endpoint: Endpoint, now: datetime) -> Facts:
    """Return what an endpoint that comes with its state says by itself."""
    return Facts(**_known(endpoint, now))


def _known(endpoint: Endpoint, now: datetime) -> dict[str, Any]:
    state = endpoint.state
    return {
        "endpoint": endpoint,
        "enabled": state.enabled,
        "disabled_reason": state.disabled_reason,
        "disabled_at": state.disabled_at,
        "paused_at": state.paused_at,
        "breaker": breaker(state),
        "consecutive_failures": state.consecutive_failures,
        "failing_since": state.first_failure_at,
        "disable_progress": _progress(endpoint, state, now),
        "warnings": state.warnings,
        "health_warning": state.health_warning or None,
        "last_success_at": state.last_success_at,
        "last_failure_at": state.last_failure_at,
        "latency_ms": state.latency_ms,
        "window": min(state.window, endpoint.max_in_flight),
        "hold_until": state.hold_until if state.hold_until and state.hold_until > now else None,
    }


def breaker(state: EndpointState) -> Breaker:
    """Return the breaker of a state row; why it opened and when it is probed only while it is not closed."""
    if state.breaker == EndpointState.Breaker.CLOSED:
        return Breaker(state.breaker, state.breaker_at, None, None, 0)
    reason = state.breaker_error or None
    return Breaker(state.breaker, state.breaker_at, reason, state.probe_at, state.breaker_successes)


def _progress(endpoint: Endpoint, state: EndpointState, now: datetime) -> float | None:
    rule = policy_of(endpoint).auto_disable
    if rule is None:
        return None
    known = HealthFacts(
        state.consecutive_failures, state.first_failure_at, state.last_failure_at, state.failing_from
    )
    return min(1.0, progress(rule, known, now))
