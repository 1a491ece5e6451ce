"""Step 3c of the path: write down what happened, in one short transaction fenced by the lease's token.

Lock order: endpoint states by id, then deliveries, then attempts. Whoever finds its token gone records
nothing: the claim lapsed and another worker has it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..core.states import DEAD, DELIVERED, EXHAUSTED, PENDING
from ..destinations.config import EndpointConfig
from .counts import count_outcomes
from .dialect import Dialect
from .evidence import insert_attempts
from .health import SUCCESS_NEWS, apply_outcomes
from .judge import Judged
from .lanes import promote
from .rates import give_back as give_back_tokens
from .state_rows import StateRow, changed_rows, lock_states, note_secret_use, save_states
from .system_events import write_changes, write_exhausted
from .transactions import Tx, short
from .wakes import wake_later, wake_starved
from .work import Done, Ended, Job, Lease, News

# How long a delivery waits whose body's database did not answer.
AWAY = timedelta(seconds=10)


@dataclass(slots=True)
class Recorded:
    """What a record wrote: attempts, deliveries that ended, changes of endpoints, and whom to wake.

    `events`: the sender's own events wait for fan-out. `kept` was not written: somebody has the state rows
    of these endpoints locked.
    """

    attempts: list[Judged] = field(default_factory=list)
    released: int = 0
    ended: list[Ended] = field(default_factory=list)
    news: list[News] = field(default_factory=list)
    events: bool = False
    wake: set[int] = field(default_factory=set)
    later: dict[int, float] = field(default_factory=dict)
    kept: list[Done] = field(default_factory=list)


def record(
    alias: str,
    lease: Lease,
    judged: Sequence[Judged],
    released: Sequence[Done],
    *,
    configs: Mapping[int, EndpointConfig],
) -> Recorded:
    """Record finished jobs and give back released ones.

    Args:
        alias: the delivery database.
        lease: the claim they belong to.
        judged: jobs with an outcome.
        released: jobs that were not attempted; they use no attempt and are due again at once.
        configs: EndpointConfig by endpoint, for the evidence.

    Returns:
        Recorded; jobs whose claim was taken over are in none of its lists.
    """
    judged = sorted(judged, key=lambda each: each.job.id)
    return short(alias, lambda tx: _record(tx, lease, judged, released, configs=configs), sidestep=True)


def give_back(alias: str, lease: Lease) -> None:
    """Release a whole claim that could not be sent; its deliveries come due again in a moment."""
    unsent = [Done(job, None, None, lease.claimed_at) for job in (*lease.jobs, *lease.lost)]
    record(alias, lease, [], unsent, configs={})


def _record(
    tx: Tx,
    lease: Lease,
    judged: Sequence[Judged],
    released: Sequence[Done],
    *,
    configs: Mapping[int, EndpointConfig],
) -> Recorded:
    endpoint_ids = {each.job.endpoint_id for each in judged} | {done.job.endpoint_id for done in released}
    states, now = lock_states(tx, sorted(endpoint_ids))
    kept: list[Done] = []
    if tx.skip:
        locked_out = endpoint_ids - states.keys()
        kept = [done for done in (*(each.done for each in judged), *released) if _of(done, locked_out)]
        judged = [each for each in judged if not _of(each, locked_out)]
        released = [done for done in released if not _of(done, locked_out)]
    mine = _written(tx, lease, judged, states, now)
    recorded = Recorded(attempts=mine, released=_release(tx, lease, released, now), kept=kept)
    insert_attempts(tx, lease, mine, configs)
    _follow_up(tx, lease, recorded, released, states, now)
    return recorded


def _follow_up(
    tx: Tx,
    lease: Lease,
    recorded: Recorded,
    released: Sequence[Done],
    states: Mapping[int, StateRow],
    now: datetime,
) -> None:
    """Do what the outcomes mean for the endpoints, and find out whom to wake."""
    outcomes = _by_endpoint(recorded.attempts)
    apply_outcomes(states, outcomes, lease.gates, _probes(tx, lease, states), now)
    _finish_probes(lease, recorded, released, states)
    jobs = _jobs(recorded.attempts, released)
    lanes = {(job.endpoint_id, job.lane) for job in jobs if job.lane is not None}
    recorded.wake = wake_starved(states) | promote(tx, lanes, now)
    recorded.wake |= {done.job.endpoint_id for done in released if done.content}
    recorded.later = wake_later(states, recorded.attempts, now)
    changes = [change for state in states.values() for change in state.news]
    recorded.wake |= {news.endpoint_id for news, _ in changes if news.kind in _LETS_GO}
    write_changes(tx, changes, lease.gates, now)
    write_exhausted(tx, recorded.attempts, lease.gates, now)
    _save(tx, states, outcomes, now)
    recorded.news = [news for news, _ in changes]
    recorded.events = bool(changes) or any(each.outcome.state == EXHAUSTED for each in recorded.attempts)
    recorded.ended = [_ended(each) for each in recorded.attempts if each.ends and each.outcome.state in DEAD]


# After these there is something to send to the endpoint at once.
_LETS_GO = ("webhook.breaker_closed", "webhook.breaker_half_opened")


def _by_endpoint(judged: Sequence[Judged]) -> dict[int, list[Judged]]:
    grouped: dict[int, list[Judged]] = {}
    for each in sorted(judged, key=lambda one: one.done.finished_at):
        grouped.setdefault(each.job.endpoint_id, []).append(each)
    return grouped


def _jobs(judged: Sequence[Judged], released: Sequence[Done]) -> Iterator[Job]:
    yield from (each.job for each in judged)
    yield from (done.job for done in released)


def _probes(tx: Tx, lease: Lease, states: Mapping[int, StateRow]) -> dict[int, bool]:
    """Return of which endpoints this lease holds the probe."""
    token = tx.dialect.uuid(lease.token)
    return {key: True for key, state in states.items() if state.probe_token == token}


def _finish_probes(
    lease: Lease, recorded: Recorded, released: Sequence[Done], states: Mapping[int, StateRow]
) -> None:
    """Let the next round of probes go once every probe of this one has reported."""
    lease.reported |= {job.id for job in _jobs(recorded.attempts, released) if job.trigger == "probe"}
    for key in {job.endpoint_id for job in _jobs(recorded.attempts, released) if job.trigger == "probe"}:
        round_ = {job.id for job in lease.jobs if job.endpoint_id == key}
        if key in states and round_ <= lease.reported:
            states[key].set(probe_token=None, probe_until=None)


def _save(
    tx: Tx, states: Mapping[int, StateRow], outcomes: Mapping[int, Sequence[Judged]], now: datetime
) -> None:
    save_states(tx, changed_rows(states))
    known = {key: mine for key, mine in outcomes.items() if key in states}
    count_outcomes(tx, known, {key: states[key].latency_ms for key in known}, now)
    good = [key for key, mine in known.items() if any(each.outcome.health == "success" for each in mine)]
    stale = [key for key in good if _is_stale(states[key], now)]
    note_secret_use(tx, stale, now)


def _is_stale(state: StateRow, now: datetime) -> bool:
    return state.last_success_at is None or state.last_success_at < now - SUCCESS_NEWS


def _of(item: Judged | Done, endpoint_ids: Collection[int]) -> bool:
    return item.job.endpoint_id in endpoint_ids


def _written(
    tx: Tx, lease: Lease, judged: Sequence[Judged], states: Mapping[int, StateRow], now: datetime
) -> list[Judged]:
    """Write the outcomes into their deliveries; return those whose claim still held."""
    written = _update_deliveries(tx, lease, [each for each in judged if not each.job.is_ping], now)
    token = tx.dialect.uuid(lease.token)
    return [
        each
        for each in judged
        if each.job.id in written or (each.job.is_ping and _holds_probe(states, each, token))
    ]


def _holds_probe(states: Mapping[int, StateRow], each: Judged, token: Any) -> bool:
    state = states.get(each.job.endpoint_id)
    return state is not None and state.probe_token == token


def _update_deliveries(tx: Tx, lease: Lease, judged: Sequence[Judged], now: datetime) -> set[int]:
    delivered = [each.job.id for each in judged if each.outcome.state == DELIVERED]
    others = [each for each in judged if each.outcome.state != DELIVERED]
    kept: set[int] = set()
    if delivered:
        condition, ids = tx.dialect.among("id", delivered)
        moment = tx.dialect.time(now)
        tx.execute(_DELIVERED.format(condition), [moment, moment, *ids, tx.dialect.uuid(lease.token)])
        kept.update(row[0] for row in tx.rows())
    if others:
        item, values = tx.dialect.values(_OTHER_TYPES, [_other(each, tx.dialect, now) for each in others])
        condition, ids = tx.dialect.among("id", [each.job.id for each in others])
        tx.execute(_OTHERS.format(item, condition), [*values, *ids, tx.dialect.uuid(lease.token)])
        kept.update(row[0] for row in tx.rows())
    return kept


_DELIVERED = """UPDATE webhooks_app_delivery SET state = 'delivered', attempts = attempts + 1, lapses = 0,
lease_token = NULL, lease_until = NULL, due_at = NULL, last_error = '', finished_at = %s,
first_delivered_at = COALESCE(first_delivered_at, %s) WHERE {} AND lease_token = %s RETURNING id"""

_OTHER_TYPES = {
    "job": "bigint",
    "new_state": "text",
    "error": "text",
    "due": "timestamptz",
    "new_step": "int",
    "new_deferrals": "int",
    "ended": "timestamptz",
    "scheduled": "boolean",
}
# Retries get a priority of their own: a backlog of them neither starves new events nor is starved by them.
# An attempt beside the schedule that fails leaves the delivery as it was, for its number.
# The ids are named twice: with the join alone, young statistics make PostgreSQL read the whole table.
_OTHERS = """UPDATE webhooks_app_delivery SET attempts = attempts + 1, lapses = 0,
lease_token = NULL, lease_until = NULL,
state = CASE WHEN v.scheduled THEN v.new_state ELSE state END,
due_at = CASE WHEN v.scheduled THEN v.due ELSE due_at END,
last_error = CASE WHEN v.scheduled THEN v.error ELSE last_error END,
step = v.new_step, deferrals = v.new_deferrals,
finished_at = CASE WHEN v.scheduled THEN v.ended ELSE finished_at END,
priority = CASE WHEN priority = 0 AND v.scheduled THEN 1 ELSE priority END
FROM {} WHERE id = v.job AND {} AND lease_token = %s RETURNING id"""


def _other(each: Judged, dialect: Dialect, now: datetime) -> tuple[Any, ...]:
    outcome = each.outcome
    ended = None if outcome.state == PENDING else now
    return (
        each.job.id,
        str(outcome.state),
        outcome.error,
        dialect.time(outcome.due_at),
        outcome.step,
        outcome.deferrals,
        dialect.time(ended),
        each.job.trigger == "schedule",
    )


def _release(tx: Tx, lease: Lease, released: Sequence[Done], now: datetime) -> int:
    # A body that cannot be read just now waits a little, lest it take the place of those that can, for ever.
    unread = [done.job.id for done in released if done.content is None]
    ready = [done.job.id for done in released if done.content is not None]
    give_back_tokens(tx, lease.gates, [done.job for done in released])
    return _give_back(tx, lease, ready, None) + _give_back(tx, lease, unread, now + AWAY)


def _give_back(tx: Tx, lease: Lease, ids: Sequence[int], due_at: datetime | None) -> int:
    if not ids:
        return 0
    condition, values = tx.dialect.among("id", sorted(ids))
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET lease_token = NULL, lease_until = NULL,
        due_at = COALESCE(%s, due_at) WHERE {condition} AND lease_token = %s""",
        [tx.dialect.time(due_at), *values, tx.dialect.uuid(lease.token)],
    )
    return int(tx.cursor.rowcount)


def _ended(each: Judged) -> Ended:
    job = each.job
    return Ended(
        job.id,
        job.endpoint_id,
        job.event_id,
        str(each.outcome.state),
        each.outcome.error,
        job.number,
        job.occurred,
        job.created,
    )
