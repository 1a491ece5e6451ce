"""Writing endpoint rows: only the columns that change, so that two editors never undo each other's work."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import F

from ..core.health import FIRST_WINDOW
from ..models import Endpoint, EndpointState

# What an endpoint starts its next life with. The late results of an earlier generation change nothing.
FRESH_HEALTH: Mapping[str, Any] = {
    "window": FIRST_WINDOW,
    "starved": False,
    "hold_until": None,
    "consecutive_failures": 0,
    "first_failure_at": None,
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
