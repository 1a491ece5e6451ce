"""Writing endpoint rows: only the columns that change, so that two editors never undo each other's work."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from .. import conf
from ..core.health import FIRST_WINDOW
from ..destinations.policy import policy_of
from ..models import Endpoint, EndpointState
from ..pipeline import announce
from ..pipeline.probes import bring_back
from ..pipeline.transactions import reading
from ..pipeline.work import News
from . import audit
from .actor import Actor

CLOSED_BREAKER: Mapping[str, Any] = {
    "breaker": EndpointState.Breaker.CLOSED,
    "breaker_at": None,
    "breaker_error": "",
    "breaker_successes": 0,
    "probe_at": None,
    "probe_token": None,
    "probe_until": None,
}
# What an endpoint starts its next life with. The late results of an earlier generation change nothing; what
# it has delivered so far, and its last error, stay known.
FRESH_HEALTH: Mapping[str, Any] = {
    **CLOSED_BREAKER,
    "window": FIRST_WINDOW,
    "starved": False,
    "hold_until": None,
    "consecutive_failures": 0,
    "first_failure_at": None,
    "failing_from": None,
    "warnings": 0,
    "health_warning": "",
}


def change(alias: str, endpoint: Endpoint, now: datetime, columns: Mapping[str, Any] | None = None) -> None:
    """Write columns of a locked endpoint; the revision rises, so that no process sends with old ones.

    Called without columns when what belongs to the endpoint changed: its secrets, its state.
    """
    row = Endpoint.objects.using(alias).filter(pk=endpoint.pk)
    row.update(**(columns or {}), revision=F("revision") + 1, updated_at=now)
    endpoint.refresh_from_db(using=alias)


def change_state(
    alias: str, state: EndpointState, columns: Mapping[str, Any], *, new_life: bool = False
) -> None:
    """Write columns of a locked state row; in a `new_life` the results of older requests move no health."""
    generation = {"generation": F("generation") + 1} if new_life else {}
    EndpointState.objects.using(alias).filter(pk=state.pk).update(**columns, **generation)
    state.refresh_from_db(using=alias)


def renew(
    actor: Actor,
    endpoint: Endpoint,
    state: EndpointState,
    columns: Mapping[str, Any],
    *,
    cause: str,
    now: datetime,
) -> None:
    """Begin a new life in a locked state row with `columns` of it; people hear of a breaker that it closes.

    Args:
        columns: FRESH_HEALTH or a part of it, and what else changes.
        cause: why, for the audit.
    """
    alias = conf.current().DATABASE
    if state.breaker != EndpointState.Breaker.CLOSED:
        news = News("webhook.breaker_closed", endpoint.pk, state.breaker_error)
        details = {"reason": news.reason, "cause": cause}
        audit.record(actor, news.kind, endpoint, details=details, now=now)
        with reading(alias) as tx:
            bring_back(tx, {endpoint.pk: policy_of(endpoint)}, now)
        transaction.on_commit(lambda: announce.changed([news]), using=alias, robust=True)
    change_state(alias, state, columns, new_life=True)
