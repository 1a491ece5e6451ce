"""The statements of a lease about deliveries: find candidates, end what can no longer be sent, claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from ..core.decide import end_before_attempt
from ..core.states import DEAD_LETTERED, EXPIRED
from .arrays import literal
from .dialect import Dialect
from .gates import Gate
from .lanes import STRICT, Lane, Row, park, promote, read_heads
from .transactions import Tx
from .work import Ended, Job, Unit

ENDS_AT_ONCE = 500
DAY = 86_400.0
ORDERED = 3

_COLUMNS = """id, endpoint_id, event_id, attempts, step, deferrals, lapses, {occurred}, {created}, {started},
{expires}, lease_token IS NOT NULL, lane, priority, {due_at}"""
_DUE = "state = 'pending' AND due_at <= %s AND (lease_until IS NULL OR lease_until < %s)"

_CLAIM_LATERAL = """SELECT d.* FROM unnest(%s::bigint[], %s::int[]) AS q(endpoint, n)
CROSS JOIN (VALUES (0), (1), (2), (3)) AS p(priority) CROSS JOIN LATERAL (
SELECT {columns} FROM webhooks_app_delivery
WHERE endpoint_id = q.endpoint AND priority = p.priority AND {due} ORDER BY due_at, id LIMIT q.n) d"""

_CLAIM_ONE = """SELECT {columns} FROM webhooks_app_delivery
WHERE endpoint_id = %s AND priority = %s AND {due} ORDER BY due_at, id LIMIT %s"""


@dataclass(slots=True)
class Found:
    """Candidates per endpoint and priority, and the deliveries that were too late and are ended now.

    `waiting` are endpoints whose lane is being sent by somebody; `parked` those with more lanes to look at.
    """

    by_endpoint: dict[int, list[list[Unit]]] = field(default_factory=dict)
    late: list[Ended] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    parked: set[int] = field(default_factory=set)

    def add(self, unit: Unit, priority: int) -> None:
        """Note a candidate; a chain counts as live work."""
        queues = self.by_endpoint.setdefault(unit[0].endpoint_id, [[], [], []])
        queues[priority % ORDERED].append(unit)


def candidates(tx: Tx, sizes: Mapping[int, int], gates: Mapping[int, Gate], now: datetime) -> Found:
    """Read due deliveries, at most `sizes[endpoint]` of each priority, oldest first; end those too late."""
    found = Found()
    if not sizes:
        return found
    late: dict[str, list[Job]] = {}
    lanes: dict[Lane, None] = {}
    seconds = now.timestamp()
    for row in _rows(tx, sizes, tx.dialect.time(now)):
        job = _job(row, gates[row[1]])
        if row[13] == ORDERED:
            lanes[job.endpoint_id, job.lane or STRICT] = None
        elif end := _end_of(job, gates[job.endpoint_id], seconds):
            late.setdefault(end, []).append(job)
        else:
            found.add((job,), row[13])
    if lanes:
        _add_chains(tx, found, list(lanes), gates, now=now, late=late)
    for state, jobs in late.items():
        found.late += _end(tx, jobs, now, state=state, error="event_unavailable" if state == EXPIRED else "")
    return found


def _end_of(job: Job, gate: Gate, now: float) -> str | None:
    """Return how the delivery ends because it is too late for another attempt; None when it is not."""
    return end_before_attempt(
        gate.policy,
        started=job.started,
        expires=job.expires,
        replay_until=job.occurred + gate.retention_days * DAY,
        now=now,
    )


def _add_chains(
    tx: Tx,
    found: Found,
    lanes: Sequence[Lane],
    gates: Mapping[int, Gate],
    *,
    now: datetime,
    late: dict[str, list[Job]],
) -> None:
    blocked: dict[Lane, Row] = {}
    for lane, rows in read_heads(tx, lanes, _columns(tx.dialect), now).items():
        chain, blocker = _chain(rows, gates[lane[0]], now.timestamp(), late=late)
        if chain:
            found.add(chain, ORDERED)
        elif blocker is not None:
            blocked[lane] = blocker
            if blocker.is_leased:
                found.waiting.add(lane[0])
    found.parked |= park(tx, blocked, now)


def _chain(
    rows: Sequence[Row], gate: Gate, now: float, *, late: dict[str, list[Job]]
) -> tuple[Unit, Row | None]:
    """Return the jobs of a lane that may go now, one after another, and the row that the rest waits for."""
    chain: list[Job] = []
    for row in rows:
        if row.is_later or row.is_leased:
            return tuple(chain), row
        job = _job(row.columns, gate)
        if end := _end_of(job, gate, now):
            late.setdefault(end, []).append(job)
        else:
            chain.append(job)
    return tuple(chain), None


def _columns(dialect: Dialect) -> str:
    return _COLUMNS.format(
        occurred=dialect.epoch("occurred_at"),
        created=dialect.epoch("created_at"),
        started=dialect.epoch("COALESCE(started_at, created_at)"),
        expires=dialect.epoch("expires_at"),
        due_at=dialect.epoch("due_at"),
    )


def _rows(tx: Tx, sizes: Mapping[int, int], now: Any) -> list[tuple[Any, ...]]:
    columns = _columns(tx.dialect)
    if tx.dialect.lateral:
        statement = _CLAIM_LATERAL.format(columns=columns, due=_DUE)
        tx.execute(statement, [literal("bigint", sizes), literal("int", sizes.values()), now, now])
        return list(tx.rows())
    rows: list[tuple[Any, ...]] = []
    for endpoint_id, size in sizes.items():
        for priority in (0, 1, 2, ORDERED):
            tx.execute(_CLAIM_ONE.format(columns=columns, due=_DUE), [endpoint_id, priority, now, now, size])
            rows.extend(tx.rows())
    return rows


def _job(row: tuple[Any, ...], gate: Gate) -> Job:
    return Job(
        id=row[0],
        endpoint_id=row[1],
        event_id=row[2],
        attempts=row[3],
        step=row[4],
        deferrals=row[5],
        # A token that is still there belongs to a worker that never came back.
        lapses=row[6] + bool(row[11]),
        occurred=row[7],
        created=row[8],
        started=row[9],
        expires=row[10],
        generation=gate.generation,
        priority=row[13],
        lane=row[12],
        due=row[14],
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
        jobs = [_job(row, gate) for row in tx.rows()]
        lanes = {job.lane for job in jobs if job.lane is not None}
        most = ENDS_AT_ONCE // max(1, len(lanes))
        ended.extend(_end(tx, jobs, now, state=DEAD_LETTERED, error=error, promoted=most))
        # What was parked in its lanes has come due now.
        if len(jobs) == ENDS_AT_ONCE or lanes:
            unfinished.add(gate.endpoint_id)
    return ended, frozenset(unfinished)


def _end(
    tx: Tx, jobs: Sequence[Job], now: datetime, *, state: str, error: str, promoted: int = 1
) -> list[Ended]:
    """End deliveries without a request; without an `error` of its own the last one stands."""
    if not jobs:
        return []
    condition, ids = tx.dialect.among("id", sorted(job.id for job in jobs))
    tx.execute(
        f"""UPDATE webhooks_app_delivery SET state = %s, last_error = COALESCE(NULLIF(%s, ''), last_error),
        finished_at = %s, due_at = NULL, lease_token = NULL, lease_until = NULL WHERE {condition}
        RETURNING id, last_error""",
        [str(state), error, tx.dialect.time(now), *ids],
    )
    errors: dict[int, str] = dict(tx.rows())
    lanes = {(job.endpoint_id, job.lane) for job in jobs if job.lane is not None}
    promote(tx, lanes, now, most=promoted)
    return [
        Ended(
            job.id,
            job.endpoint_id,
            job.event_id,
            str(state),
            errors[job.id],
            job.attempts,
            job.occurred,
            job.created,
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


def claim_one(
    tx: Tx, delivery_id: int, gate: Gate, *, token: UUID, until: datetime, now: datetime
) -> Job | None:
    """Claim one delivery, open or ended, for an attempt beside its schedule; None while it is being sent.

    Only an open one comes due: its claim could lapse.
    """
    time = tx.dialect.time
    tx.execute(
        f"""SELECT {_columns(tx.dialect)}, state FROM webhooks_app_delivery
        WHERE id = %s AND endpoint_id = %s AND (lease_until IS NULL OR lease_until < %s)""",
        [delivery_id, gate.endpoint_id, time(now)],
    )
    row = tx.row()
    if row is None:
        return None
    tx.execute(
        """UPDATE webhooks_app_delivery SET lease_token = %s, lease_until = %s,
        due_at = CASE WHEN state = 'pending' THEN COALESCE(due_at, %s) END WHERE id = %s""",
        [tx.dialect.uuid(token), time(until), time(now), delivery_id],
    )
    return replace(_job(row, gate), trigger="manual", state=row[15])
