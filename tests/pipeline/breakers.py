"""Endpoints whose breaker is open, and what is looked at while it is."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from webhooks_app.models import Attempt, AuditEntry, Delivery, Endpoint, EndpointState
from webhooks_app.pipeline import tick

from .driving import ALIAS
from .factories import EndpointFactory

# The counters count everything, and who is woken when is no health.
COUNTERS = ("delivered", "retried", "failed", "dead_lettered", "latency_ms", "last_success_at")
HINTS = ("woken_until", "starved")
PROBES = {"strict": 3, "exponential": 1}
OPEN_SECONDS = {"strict": 30, "exponential": 60}


def opened(policy: str = "strict", *, due: bool = True, **values: Any) -> Endpoint:
    """Make an endpoint whose breaker opened; its probe is `due`, or will be after the policy's time."""
    ago = timedelta(seconds=OPEN_SECONDS.get(policy, 30))
    at = timezone.now() - (ago if due else timedelta())
    failures = {"consecutive_failures": 30, "first_failure_at": at, "last_failure_at": at, "failing_from": at}
    breaker = {"breaker": "open", "breaker_at": at, "breaker_error": "timeout", "probe_at": at + ago}
    state = {f"state__{name}": value for name, value in (failures | breaker).items()}
    return EndpointFactory(policy=policy, **{**state, **values})


def state_of(endpoint: Endpoint) -> EndpointState:
    """Return its state row."""
    return EndpointState.objects.get(pk=endpoint.pk)


def breaker_of(endpoint: Endpoint) -> str:
    """Return where its breaker stands."""
    return state_of(endpoint).breaker


def health_of(endpoint: Endpoint) -> dict[str, Any]:
    """Return its state row without counters and hints."""
    row = EndpointState.objects.filter(pk=endpoint.pk).values().get()
    return {name: value for name, value in row.items() if name not in (*COUNTERS, *HINTS)}


def set_state(endpoint: Endpoint, **values: Any) -> None:
    """Change its state row behind everybody's back."""
    EndpointState.objects.filter(pk=endpoint.pk).update(**values)


def changes(endpoint: Endpoint) -> list[str]:
    """Return what the audit says of its breaker, oldest first."""
    rows = AuditEntry.objects.filter(target_id=endpoint.public_id, action__startswith="webhook.breaker_")
    return [row.action.removeprefix("webhook.breaker_") for row in rows.order_by("id")]


def triggers(endpoint: Endpoint) -> list[str]:
    """Return the trigger of each of its attempts, oldest first."""
    return list(
        Attempt.objects.filter(endpoint=endpoint).order_by("created_at").values_list("trigger", flat=True)
    )


def untouched(endpoint: Endpoint) -> int:
    """Return how many of its deliveries wait and were never attempted."""
    return Delivery.objects.filter(endpoint=endpoint, state="pending", attempts=0).count()


def looked() -> list[int]:
    """Let the tick look; return the endpoints that it wakes now."""
    found = tick.look(ALIAS)
    return sorted(found.due + found.neglected)
