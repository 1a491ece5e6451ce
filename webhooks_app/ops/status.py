"""Where an endpoint's deliveries stand: who sends them, how many there were, how far behind they are."""

from dataclasses import dataclass
from datetime import datetime

from ..models import Endpoint, EndpointState
from .backlog import Backlog, backlog, is_delivering


@dataclass(frozen=True, slots=True)
class LastError:
    """The error code of the last failed attempt, and when that was."""

    at: datetime | None
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One endpoint at work.

    ``delivering``: requests to it are under way. ``owner`` is the node that an endpoint with an order belongs
    to for now. ``retried`` and ``failed`` count attempts that failed, ``failed`` those that were the last of
    their delivery; ``dead_lettered`` counts deliveries that ended otherwise than delivered.
    """

    endpoint: Endpoint
    delivering: bool
    owner: str | None
    delivered: int
    retried: int
    failed: int
    dead_lettered: int
    last_delivery_at: datetime | None
    last_error: LastError | None
    lag: Backlog


def status(alias: str, endpoint: Endpoint, now: datetime) -> Status:
    """Return an endpoint's status; three queries, all bounded. The endpoint comes with its state."""
    state = endpoint.state
    delivering = is_delivering(alias, endpoint.pk, now)
    return Status(
        endpoint=endpoint,
        delivering=delivering,
        owner=owner_of(state, delivering=delivering, now=now),
        delivered=state.delivered,
        retried=state.retried,
        failed=state.failed,
        dead_lettered=state.dead_lettered,
        last_delivery_at=state.last_success_at,
        last_error=LastError(state.last_failure_at, state.last_error) if state.last_error else None,
        lag=backlog(alias, endpoint.pk, now),
    )


def owner_of(state: EndpointState, *, delivering: bool, now: datetime) -> str | None:
    """Return the node that an ordered endpoint belongs to, while its claim lasts or requests are open."""
    owned = delivering or (state.owner_until is not None and state.owner_until > now)
    return state.owner if owned and state.owner else None
