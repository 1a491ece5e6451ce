"""What the outcomes of a record do to an endpoint: window, holds, breaker, warnings, automatic disabling."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from ..core.breaker import CLOSED, OPEN, BreakerFacts, after
from ..core.health import (
    FIRST_WINDOW,
    TOO_MANY,
    begins_redirecting,
    next_window,
    should_disable,
    warnings_due,
    worst,
)
from ..core.policies import Policy
from .gates import Gate
from .judge import Judged
from .state_rows import StateRow
from .work import News

# Secrets are noted as used at most once a minute.
SUCCESS_NEWS = timedelta(seconds=60)


def apply_outcomes(
    states: Mapping[int, StateRow],
    outcomes: Mapping[int, Sequence[Judged]],
    gates: Mapping[int, Gate],
    *,
    probes: Collection[int],
    now: datetime,
) -> None:
    """Apply the outcomes of each endpoint, in the order they came in, to its row.

    `probes` are the endpoints whose probe this lease holds.
    """
    for endpoint_id, mine in outcomes.items():
        state = states.get(endpoint_id)
        if state is None:
            continue
        # Results of an earlier life (before a disable, an enable, another URL) say nothing about this one.
        current = [each for each in mine if each.job.generation == state.generation]
        if current:
            _apply(state, current, gates[endpoint_id], probing=endpoint_id in probes, now=now)


def _apply(state: StateRow, outcomes: Sequence[Judged], gate: Gate, *, probing: bool, now: datetime) -> None:
    state.set(window=next_window(state.window, worst(each.pace for each in outcomes), gate.max_in_flight))
    life = state.generation
    asked = next((each for each in outcomes if each.outcome.disable), None)
    for each in outcomes:
        # What came in behind a change belongs to the life before it, as in a later record.
        if state.generation == life:
            _move_health(state, each, gate.policy, now)
            if not _is_echo(state, each):
                _move_breaker(state, each, gate.policy, probing)
            if asked is None and should_disable(gate.policy, state.health, now):
                _disable(state, each, "failing", now)
        _hold(state, each)
    if asked is not None:
        _disable(state, asked, asked.outcome.disable or "", now)


def _is_echo(state: StateRow, each: Judged) -> bool:
    """Whether it says again what the endpoint is left alone for already: too many requests at once.

    Those of one burst count for the breaker as one, or our own backlog would open it again and again.
    """
    on_hold = state.hold_until is not None and each.done.finished_at < state.hold_until
    return on_hold and each.result.http_status == TOO_MANY


def _hold(state: StateRow, each: Judged) -> None:
    until = each.outcome.hold_until
    if until is not None and (state.hold_until is None or state.hold_until < until):
        state.set(hold_until=until)


def _move_health(state: StateRow, each: Judged, policy: Policy, now: datetime) -> None:
    health = each.outcome.health
    if health == "none":
        return
    facts = state.health.after(health, each.done.finished_at, policy.auto_disable)
    if health == "success":
        _recover(state, each)
        state.set(consecutive_failures=0, first_failure_at=None, failing_from=None)
        return
    _warn_of_redirects(state, each, policy)
    state.set(
        consecutive_failures=facts.consecutive,
        first_failure_at=facts.first_failure_at,
        last_failure_at=facts.last_failure_at,
        failing_from=facts.failing_from,
        last_error=each.outcome.error,
    )
    _warn(state, each, policy, now)


def _recover(state: StateRow, each: Judged) -> None:
    if state.warnings:
        state.news.append((News("webhook.recovered", state.endpoint_id, "delivered"), each))
    state.set(warnings=0, health_warning="")


def _warn_of_redirects(state: StateRow, each: Judged, policy: Policy) -> None:
    """Look at the failure before this one, so it comes before this one is noted."""
    if not policy.warns_redirect or each.outcome.error != "redirect":
        return
    begins = begins_redirecting(
        state.health_warning,
        last_error=state.last_error,
        last_failure_at=state.last_failure_at,
        at=each.done.finished_at,
    )
    if begins:
        state.news.append((News("webhook.warned", state.endpoint_id, "redirect"), each))
    state.set(health_warning="redirect")


def _warn(state: StateRow, each: Judged, policy: Policy, now: datetime) -> None:
    due = warnings_due(policy, state.health, now)
    if due > state.warnings and policy.auto_disable is not None:
        share = policy.auto_disable.warnings[due - 1]
        since = state.failing_from or state.first_failure_at or now
        data = {"failing_since": since, "progress": share, "failures": state.consecutive_failures}
        state.news.append((News("webhook.warned", state.endpoint_id, "failing", data), each))
        state.set(warnings=due)


def _move_breaker(state: StateRow, each: Judged, policy: Policy, probing: bool) -> None:
    before = state.circuit
    moved = after(
        policy.breaker,
        before,
        health=each.outcome.health,
        probe=each.is_probe and probing and state.probe_until is not None,
        consecutive=state.consecutive_failures,
        error=each.outcome.error,
        at=each.done.finished_at,
    )
    if moved != before:
        _set_breaker(state, moved)
        if moved.state != before.state:
            _change_breaker(state, moved, each, before)


def _set_breaker(state: StateRow, facts: BreakerFacts) -> None:
    state.set(
        breaker=facts.state,
        breaker_at=facts.at,
        breaker_error=facts.error,
        breaker_successes=facts.successes,
        probe_at=facts.probe_at,
    )


_KINDS = {CLOSED: "webhook.breaker_closed", OPEN: "webhook.breaker_opened"}


def _change_breaker(state: StateRow, moved: BreakerFacts, each: Judged, before: BreakerFacts) -> None:
    """A new chapter: what was sent before it says nothing more, and the receiver is met with few requests."""
    kind = _KINDS.get(moved.state, "webhook.breaker_half_opened")
    state.set(generation=state.generation + 1, window=FIRST_WINDOW, probe_token=None, probe_until=None)
    if moved.at == before.at:
        return  # another round of probes has failed: it was open all the time
    state.news.append((News(kind, state.endpoint_id, moved.error or before.error), each))
    told = any(news.kind == "webhook.recovered" and told_by is each for news, told_by in state.news)
    if moved.state == CLOSED and not told:
        state.news.append((News("webhook.recovered", state.endpoint_id, "breaker_closed"), each))


def _disable(state: StateRow, cause: Judged, reason: str, now: datetime) -> None:
    if state.enabled:
        state.set(enabled=False, disabled_reason=reason, disabled_at=now, generation=state.generation + 1)
        state.news.append((News("webhook.disabled", state.endpoint_id, reason), cause))
