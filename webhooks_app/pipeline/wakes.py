"""Whom a record wakes: who waited for a free place at once, quick retries and short rests in a moment."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from ..core.breaker import CLOSED
from .judge import Judged
from .state_rows import StateRow

# Later retries are left to the tick: a countdown lives in a worker's memory.
SOON = timedelta(seconds=5)


def wake_starved(states: Mapping[int, StateRow]) -> set[int]:
    """Return the endpoints that waited for a place, and note that they were told."""
    starved = {endpoint_id for endpoint_id, state in states.items() if state.starved}
    for endpoint_id in starved:
        states[endpoint_id].starved = False
        states[endpoint_id].changed = True
    return starved


def wake_later(states: Mapping[int, StateRow], judged: Iterable[Judged], now: datetime) -> dict[int, float]:
    """Return seconds until a look at each endpoint that no earlier wake is on its way for.

    It is worth one at its first quick retry or, where a gate is shut until then, when that opens.
    """
    soonest = _soonest(judged, now)
    later: dict[int, float] = {}
    for endpoint_id, state in states.items():
        moment = _shut_until(state, now) or soonest.get(endpoint_id)
        if moment is not None and moment < now + SOON and not _is_coming(state.woken_until, now, moment):
            state.set(woken_until=moment)
            later[endpoint_id] = (moment - now).total_seconds()
    return later


def _soonest(judged: Iterable[Judged], now: datetime) -> dict[int, datetime]:
    soonest: dict[int, datetime] = {}
    for each in judged:
        due_at = each.outcome.due_at
        if due_at is not None and due_at - now < SOON:
            soonest[each.job.endpoint_id] = min(due_at, soonest.get(each.job.endpoint_id, due_at))
    return soonest


def _shut_until(state: StateRow, now: datetime) -> datetime | None:
    """Return when the silence that it asked for is over, or its next probe may go; no retry leaves before."""
    probe_at = None if state.breaker == CLOSED else state.probe_at
    return max(
        (each for each in (state.hold_until, probe_at) if each is not None and each > now), default=None
    )


def _is_coming(woken_until: datetime | None, now: datetime, due_at: datetime) -> bool:
    return woken_until is not None and now < woken_until <= due_at
