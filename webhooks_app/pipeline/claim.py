"""The statements of a lease about deliveries: find candidates, end what can no longer be sent, claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from ..core.states import DEAD_LETTERED, EXPIRED
from .arrays import literal
from .dialect import Dialect
from .gates import Gate
from .transactions import Tx
from .work import Ended, Job

ENDS_AT_ONCE = 500
DAY = 86_400.0

_COLUMNS = """id, endpoint_id, event_id, attempts, step, deferrals, lapses, {occurred}, {created}, {expires},
lease_token IS NOT NULL, priority"""
_DUE = "state = 'pending' AND due_at <= %s AND (lease_until IS NULL OR lease_until < %s)"

_CLAIM_LATERAL = """SELECT d.* FROM unnest(%s::bigint[], %s::int[]) AS q(endpoint, n)
CROSS JOIN (VALUES (0), (1), (2)) AS p(priority) CROSS JOIN LATERAL (
SELECT {columns} FROM webhooks_app_delivery
WHERE endpoint_id = q.endpoint AND priority = p.priority AND {due} ORDER BY due_at, id LIMIT q.n) d"""

_CLAIM_ONE = """SELECT {columns} FROM webhooks_app_delivery
WHERE endpoint_id = %s AND priority = %s AND {due} ORDER BY due_at, id LIMIT %s"""


@dataclass(slots=True)
class Found:
    """Candidates per endpoint and priority, and the deliveries that were too old and are ended now."""

    by_endpoint: dict[int, list[list[Job]]] = field(default_factory=dict)
    expired: list[Ended] = field(default_factory=list)


def candidates(tx: Tx, sizes: Mapping[int, int], gates: Sequence[Gate], now: datetime) -> Found:
    """Read due deliveries, at most `sizes[endpoint]` of each priority, oldest first; end the expired ones."""
    found = Found()
    if not sizes:
        return found
    by_id = {gate.endpoint_id: gate for gate in gates}
    too_old: list[Job] = []
    seconds = now.timestamp()
    for row in _rows(tx, sizes, tx.dialect.time(now)):
        gate = by_id[row[1]]
        job = _job(row, gate.generation)
        if is_expired(job, gate, seconds):
            too_old.append(job)
        else:
            found.by_endpoint.setdefault(job.endpoint_id, [[], [], []])[row[11]].append(job)
    found.expired = _end(tx, too_old, now, state=EXPIRED, error="event_unavailable")
    return found


def is_expired(job: Job, gate: Gate, now: float) -> bool:
    """Whether the event's own time or its retention is over."""
    if job.expires is not None and job.expires <= now:
        return True
    return job.occurred + gate.retention_days * DAY <= now


def _columns(dialect: Dialect) -> str:
    return _COLUMNS.format(
        occurred=dialect.epoch("occurred_at"),
        created=dialect.epoch("created_at"),
        expires=dialect.epoch("expires_at"),
    )


def _rows(tx: Tx, sizes: Mapping[int, int], now: Any) -> list[tuple[Any, ...]]:
    columns = _columns(tx.dialect)
    if tx.dialect.lateral:
        statement = _CLAIM_LATERAL.format(columns=columns, due=_DUE)
        tx.execute(statement, [literal("bigint", sizes), literal("int", sizes.values()), now, now])
        return list(tx.rows())
    rows: list[tuple[Any, ...]] = []
    for endpoint_id, size in sizes.items():
        for priority in (0, 1, 2):
            tx.execute(_CLAIM_ONE.format(columns=columns, due=_DUE), [endpoint_id, priority, now, now, size])
            rows.extend(tx.rows())
    return rows


def _job(row: tuple[Any, ...], generation: int) -> Job:
    key, endpoint_id, event_id, attempts, step, deferrals, lapses, occurred, created, expires, held = row[:11]
    return Job(
        id=key,
        endpoint_id=endpoint_id,
        event_id=event_id,
        attempts=attempts,
        step=step,
        deferrals=deferrals,
        # A token that is still there belongs to a worker that never came back.
        lapses=lapses + bool(held),
        occurred=occurred,
        created=created,
        expires=expires,
        generation=generation,
    )


def end_of_life(tx: Tx, gates: Sequence[Gate], now: datetime) -> tuple[list[Ended], frozenset[int]]:
    """Dead-letter what came due at disabled and deleted endpoints; also return those with more of it."""
    ended: list[Ended] = []
    unfinished: set[int] = set()
    for gate in gates:
        if gate.enabled and not gate.deleted:
            continue
        error = "endpoint_deleted" if gate.deleted else "endpoint_disabled"
        tx.execute(
            f"""SELECT {_columns(tx.dialect)} FROM webhooks_app_delivery
            WHERE endpoint_id = %s AND {_DUE} LIMIT %s""",
            [gate.endpoint_id, tx.dialect.time(now), tx.dialect.time(now), ENDS_AT_ONCE],
        )
        jobs = [_job(row, gate.generation) for row in tx.rows()]
        ended.extend(_end(tx, jobs, now, state=DEAD_LETTERED, error=error))
        if len(jobs) == ENDS_AT_ONCE:
            unfinished.add(gate.endpoint_id)
    return ended, frozenset(unfinished)


def _end(tx: Tx, jobs: Sequence[Job], now: datetime, *, state: str, error: str) -> list[Ended]:
    if not jobs:
        return []
    condition, ids = tx.dialect.among("id", sorted(job.id for job in jobs))
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET state = %s, last_error = %s, finished_at = %s, due_at = NULL,
        lease_token = NULL, lease_until = NULL WHERE {condition}""",
        [str(state), error, tx.dialect.time(now), *ids],
    )
    return [
        Ended(
            job.id, job.endpoint_id, job.event_id, str(state), error, job.attempts, job.occurred, job.created
        )
        for job in jobs
    ]


def mark(tx: Tx, jobs: Sequence[Job], *, token: UUID, until: datetime, now: datetime) -> None:
    """Claim the jobs: nobody else may until `until`."""
    if not jobs:
        return
    condition, ids = tx.dialect.among("id", sorted(job.id for job in jobs))
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET
        lapses = lapses + CASE WHEN lease_token IS NULL THEN 0 ELSE 1 END,
        lease_token = %s, lease_until = %s, due_at = COALESCE(due_at, %s) WHERE {condition}""",
        [tx.dialect.uuid(token), tx.dialect.time(until), tx.dialect.time(now), *ids],
    )
