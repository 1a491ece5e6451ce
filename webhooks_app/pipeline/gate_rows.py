"""Locks the state rows of a lease's endpoints and reads everything its gates need, in two statements.

The second comes after the locks are held, so that it sees what was committed while they were waited for.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..conf import current
from ..core.breaker import CLOSED, BreakerFacts
from ..destinations.policy import resolve
from . import clock
from .dialect import Dialect
from .gates import Gate
from .rates import host_of, resolve_rate
from .retention import days_of
from .tenancy import is_suspended
from .transactions import Tx

# The clock is asked outside of the locking select: PostgreSQL would fill in its columns before it waits.
_STATES = """SELECT s.*, {now} FROM (SELECT endpoint_id, enabled, paused_at IS NOT NULL AS paused, hold_until,
"window", starved, woken_until, generation, latency_ms, tokens, tokens_at, breaker, breaker_at, breaker_error,
breaker_successes, probe_at, probe_until FROM webhooks_app_endpointstate WHERE {ids}
ORDER BY endpoint_id {lock}) AS s"""

# A chain of a lane counts as one request in flight, for its rows go one after another.
_GATES = """SELECT e.id, e.deleted_at IS NOT NULL, e.max_in_flight, e.revision, e.policy, e.policy_overrides,
t.suspended_at IS NOT NULL OR p.suspended_at IS NOT NULL, t.retention_days, e.tenant_id, e.partner_id,
(SELECT count(CASE WHEN d.lane IS NULL THEN 1 END) + count(DISTINCT d.lane) FROM webhooks_app_delivery d
 WHERE d.endpoint_id = e.id AND d.lease_token IS NOT NULL AND d.lease_until >= %s),
e.public_id, e.rate_limit, {url}
FROM webhooks_app_endpoint e LEFT JOIN webhooks_app_tenant t ON t.id = e.tenant_id
LEFT JOIN webhooks_app_partner p ON p.id = COALESCE(e.partner_id, t.partner_id) WHERE {ids}"""


def lock_gates(tx: Tx, ids: Sequence[int]) -> tuple[list[Gate], datetime]:
    """Lock the state rows of these endpoints in id order; return their gates and the present time."""
    condition, values = tx.dialect.among("endpoint_id", ids)
    tx.execute(_STATES.format(now=tx.dialect.now_sql, ids=condition, lock=tx.lock), values)
    states = tx.rows()
    # The last row's clock: it was read after the last wait for a lock.
    now = clock.read(states[-1][17] if states else None)
    if not states:
        return [], now
    condition, values = tx.dialect.among("e.id", [row[0] for row in states])
    url = "NULL" if current().HOST_RATE_LIMIT is None else "e.url"
    tx.execute(_GATES.format(ids=condition, url=url), [tx.dialect.time(now), *values])
    endpoints = {row[0]: row for row in tx.rows()}
    return [_gate(tx.dialect, row, endpoints[row[0]]) for row in states if row[0] in endpoints], now


def locked_elsewhere(tx: Tx, ids: Sequence[int], gates: Sequence[Gate]) -> tuple[int, ...]:
    """Return the endpoints that were left out because somebody has their state row locked."""
    if not tx.skip:
        return ()
    missing = sorted(set(ids) - {gate.endpoint_id for gate in gates})
    condition, values = tx.dialect.among("endpoint_id", missing)
    tx.execute(f"SELECT endpoint_id FROM webhooks_app_endpointstate WHERE {condition}", values)
    return tuple(row[0] for row in tx.rows())


def _gate(dialect: Dialect, state: tuple[Any, ...], endpoint: tuple[Any, ...]) -> Gate:
    probe_until = dialect.moment(state[16])
    return Gate(
        endpoint_id=state[0],
        public_id=endpoint[11],
        tenant_id=endpoint[8],
        partner_id=endpoint[9],
        enabled=bool(state[1]),
        deleted=bool(endpoint[1]),
        held=bool(state[2]) or bool(endpoint[6]) or is_suspended(endpoint[8], endpoint[9]),
        hold_until=dialect.moment(state[3]),
        window=state[4],
        starved=bool(state[5]),
        woken_until=dialect.moment(state[6]),
        generation=state[7],
        max_in_flight=endpoint[2],
        revision=endpoint[3],
        policy=resolve(endpoint[4], endpoint[5]),
        retention_days=days_of(endpoint[8], endpoint[7]),
        live=endpoint[10],
        latency_ms=state[8],
        breaker=None if state[11] == CLOSED else _breaker(dialect, state),
        probe_until=probe_until,
        rate=None if endpoint[12] is None else resolve_rate(endpoint[12]),
        tokens=state[9],
        tokens_at=dialect.moment(state[10]),
        host=None if endpoint[13] is None else host_of(endpoint[13]),
    )


def _breaker(dialect: Dialect, state: tuple[Any, ...]) -> BreakerFacts:
    return BreakerFacts(
        state=state[11],
        at=dialect.moment(state[12]),
        error=state[13],
        successes=state[14],
        probe_at=dialect.moment(state[15]),
    )
