"""What `ops` says of endpoints, as the API tells it: asked for once a page, so that all columns agree."""

from collections.abc import Sequence
from typing import Any

from .. import conf
from ..models import Endpoint
from ..ops.backlog import delivering_among
from ..ops.health import Facts, Health, facts, health
from ..ops.status import Status, owner_of, status
from ..pipeline import clock


def attach(endpoints: Sequence[Endpoint]) -> None:
    """Attach to the rows of a list what it shows; two queries, however many rows."""
    alias = conf.current().DATABASE
    now = clock.db_now(alias)
    busy = delivering_among(alias, [endpoint.pk for endpoint in endpoints], now)
    for endpoint in endpoints:
        _note(endpoint, "facts", facts(endpoint, now))
        _note(endpoint, "owner", owner_of(endpoint.state, delivering=endpoint.pk in busy, now=now))


def facts_of(endpoint: Endpoint) -> Facts:
    """Return the facts of a row of a list, or of the endpoint of a page."""
    known: Facts | None = _noted(endpoint, "facts")
    return known or health_of(endpoint)


def owner(endpoint: Endpoint) -> str | None:
    """Return who a row of a list belongs to just now."""
    return _noted(endpoint, "owner")  # type: ignore[no-any-return]


def health_of(endpoint: Endpoint) -> Health:
    """Return the health of the endpoint of a page."""
    known: Health | None = _noted(endpoint, "health")
    if known is None:
        alias = conf.current().DATABASE
        known = health(alias, endpoint, clock.db_now(alias))
        _note(endpoint, "health", known)
    return known


def status_of(endpoint: Endpoint) -> Status:
    """Return the status of the endpoint of a page."""
    known: Status | None = _noted(endpoint, "status")
    if known is None:
        alias = conf.current().DATABASE
        known = status(alias, endpoint, clock.db_now(alias))
        _note(endpoint, "status", known)
    return known


def _note(endpoint: Endpoint, name: str, value: Any) -> None:
    setattr(endpoint, f"known_{name}", value)


def _noted(endpoint: Endpoint, name: str) -> Any:
    return getattr(endpoint, f"known_{name}", None)
