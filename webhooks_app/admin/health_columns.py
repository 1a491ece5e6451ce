"""What lists and pages show of an endpoint's health; the page of one asks for more than the list of many."""

from datetime import datetime

from django.contrib import admin

from ..models import Endpoint, EndpointState
from ..ops.health import Breaker
from . import shown
from .endpoint_facts import facts_of, health_of, owner, status_of

HEALTH = (
    "breaker_whole",
    "warned",
    "consecutive_failures",
    "first_failure",
    "last_failure",
    "last_success",
    "disable_progress",
    "success_rate",
    "latency",
    "recent_errors",
    "window",
    "held_until",
)
WORK = ("node", "lag", "counts", "last_error")


class HealthColumns:
    """Columns of EndpointAdmin."""

    @admin.display(description="breaker")
    def breaker(self, endpoint: Endpoint) -> str:
        """Return the breaker in a few lines, for the list."""
        return shown.lines(_breaker(facts_of(endpoint).breaker))

    @admin.display(description="breaker")
    def breaker_whole(self, endpoint: Endpoint) -> str:
        """Return the breaker in one line, with how far it has come."""
        found = facts_of(endpoint).breaker
        parts = _breaker(found)
        return ", ".join([*parts, f"{found.successes} good in a row"] if len(parts) > 1 else parts)

    @admin.display(description="warnings")
    def warned(self, endpoint: Endpoint) -> str:
        """Return how often this run of failures was warned about, and what else should be looked at."""
        known = facts_of(endpoint)
        times = f"{known.warnings}× failing" if known.warnings else ""
        return ", ".join(part for part in (times, known.health_warning) if part) or shown.NOTHING

    @admin.display(description="node")
    def holder(self, endpoint: Endpoint) -> str:
        """Return the node that an endpoint with an order belongs to just now, for the list."""
        return owner(endpoint) or shown.NOTHING

    @admin.display(description="delivered / retried / failed / dead")
    def counts(self, endpoint: Endpoint) -> str:
        """Return what became of deliveries and attempts so far."""
        state = endpoint.state
        counts = (state.delivered, state.retried, state.failed, state.dead_lettered)
        return " / ".join(f"{count:,}" for count in counts)

    @admin.display(description="way to being disabled")
    def disable_progress(self, endpoint: Endpoint) -> str:
        """Return how near lasting failure has brought it to being disabled."""
        found = health_of(endpoint).disable_progress
        return "its policy never disables" if found is None else f"{found:.0%}"

    @admin.display(description="successful attempts")
    def success_rate(self, endpoint: Endpoint) -> str:
        """Return the share of successes, and of which attempts."""
        found = health_of(endpoint).sample
        if found.success_rate is None or found.since is None:
            return shown.NOTHING
        return f"{found.success_rate:.1%} of {found.attempts:,} since {_minute(found.since)}"

    @admin.display(description="time to answer")
    def latency(self, endpoint: Endpoint) -> str:
        """Return the smoothed time and its percentiles."""
        found = health_of(endpoint)
        p50, p95, p99 = found.sample.latency.p50_ms, found.sample.latency.p95_ms, found.sample.latency.p99_ms
        parts = {"now": found.latency_ms, "p50": p50, "p95": p95, "p99": p99}
        told = (f"{name} {value:,} ms" for name, value in parts.items() if value is not None)
        return ", ".join(told) or shown.NOTHING

    @admin.display(description="recent errors")
    def recent_errors(self, endpoint: Endpoint) -> str:
        """Return error codes with how often and when last."""
        found = health_of(endpoint).sample.errors
        return shown.pre("\n".join(f"{each.count:,}× {each.code}, {_minute(each.last_at)}" for each in found))

    @admin.display(description="sent by")
    def node(self, endpoint: Endpoint) -> str:
        """Return who delivers now."""
        found = status_of(endpoint)
        return found.owner or ("several or unknown" if found.delivering else "nobody just now")

    @admin.display(description="open deliveries")
    def lag(self, endpoint: Endpoint) -> str:
        """Return how many there are, and how long the first of them waits."""
        found = status_of(endpoint).lag
        more = " and more" if found.more else ""
        wait = f", due for {found.seconds:,.0f} s" if found.seconds else ""
        return f"{found.deliveries:,}{more}{wait}"

    @admin.display(description="last error")
    def last_error(self, endpoint: Endpoint) -> str:
        """Return the last failed attempt's error code and time."""
        found = status_of(endpoint).last_error
        if found is None:
            return shown.NOTHING
        return f"{found.code}, {_minute(found.at)}" if found.at else found.code


def _breaker(found: Breaker) -> list[str]:
    """Say where a breaker stands; while it is not closed, why, since when, and when it is tried next."""
    if found.state == EndpointState.Breaker.CLOSED:
        return [found.state]
    told = [f"{found.state.replace('_', '-')}: {found.reason or 'no error'}", f"since {_minute(found.since)}"]
    if found.next_probe_at:
        told.append(f"next probe {found.next_probe_at:%Y-%m-%d %H:%M:%S}")
    return told


def _minute(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else shown.NOTHING
