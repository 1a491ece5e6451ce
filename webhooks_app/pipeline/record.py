"""Step 3c of the path: write down what happened, in one short transaction fenced by the lease's token.

Lock order: endpoint states by id, then deliveries, then attempts. Whoever finds its token gone records
nothing: the claim lapsed and another worker has it.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from ..core.states import PENDING
from ..destinations.config import EndpointConfig
from .dialect import Dialect
from .evidence import insert_attempts
from .follow_up import Recorded, Scene, follow_up
from .judge import Judged
from .rates import give_back as give_back_tokens
from .state_rows import lock_states
from .transactions import Tx, short
from .work import Done, Lease

# How long a delivery waits whose body's database did not answer.
AWAY = timedelta(seconds=10)


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
    recorded = short(alias, lambda tx: _record(tx, lease, judged, released, configs=configs), sidestep=True)
    # Not before the commit: what is undone has not reported.
    lease.reported |= recorded.reported
    return recorded


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
    scene = Scene(tx, lease, states, now)
    mine = _written(scene, judged)
    recorded = Recorded(attempts=mine, released=_release(tx, lease, released, now), kept=kept)
    insert_attempts(tx, lease, mine, configs)
    follow_up(scene, recorded, released)
    return recorded


def _of(item: Judged | Done, endpoint_ids: Collection[int]) -> bool:
    return item.job.endpoint_id in endpoint_ids


def _written(scene: Scene, judged: Sequence[Judged]) -> list[Judged]:
    """Write the outcomes into their deliveries; return those whose claim still held."""
    deliveries = [each for each in judged if not each.job.is_ping]
    written = _update_deliveries(scene.tx, scene.lease, deliveries, scene.now)
    return [
        each
        for each in judged
        if each.job.id in written or (each.job.is_ping and scene.holds_probe(each.job.endpoint_id))
    ]


def _update_deliveries(tx: Tx, lease: Lease, judged: Sequence[Judged], now: datetime) -> set[int]:
    delivered = [each.job.id for each in judged if each.succeeded]
    others = [each for each in judged if not each.succeeded]
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
due_at = CASE WHEN v.scheduled THEN v.due ELSE COALESCE(v.due, due_at) END,
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
        dialect.time(None if each.ends else each.due_at),
        outcome.step,
        outcome.deferrals,
        dialect.time(ended),
        each.job.trigger == "schedule" or each.ends,
    )


def _release(tx: Tx, lease: Lease, released: Sequence[Done], now: datetime) -> int:
    # A body that cannot be read just now waits a little, lest it take the place of those that can, for ever.
    waits = {done.job.id for done in released if done.content is None and done.job.trigger != "manual"}
    ready = {done.job.id for done in released} - waits
    mine = _give_back(tx, lease, ready, None) | _give_back(tx, lease, waits, now + AWAY)
    # What somebody else has claimed since has taken tokens of its own; an attempt on request took none.
    took = [done.job for done in released if done.job.id in mine and done.job.trigger != "manual"]
    give_back_tokens(tx, lease.gates, took)
    return len(mine)


def _give_back(tx: Tx, lease: Lease, ids: Collection[int], due_at: datetime | None) -> set[int]:
    """Release claims that still hold; return whose they were."""
    if not ids:
        return set()
    condition, values = tx.dialect.among("id", sorted(ids))
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET lease_token = NULL, lease_until = NULL,
        due_at = COALESCE(%s, due_at) WHERE {condition} AND lease_token = %s RETURNING id""",
        [tx.dialect.time(due_at), *values, tx.dialect.uuid(lease.token)],
    )
    return {row[0] for row in tx.rows()}
