"""The tick: finds what a lost hint left behind, and wakes it. One at a time, every few seconds."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, connections

from ..conf import current
from . import doorbell
from .dispatch import has_waiting
from .index import has_unfanned
from .locks import touch, try_lock
from .transactions import Tx, logger, short

LOCK = "tick"
AHEAD = timedelta(seconds=5)
PATIENCE = timedelta(seconds=30)
MOST = 5_000


@dataclass(slots=True)
class Found:
    """What a tick found: whether events wait for fan-out, endpoints due now, endpoints due in a moment.

    `neglected` are due too, and nobody looked at them after the last wake.
    """

    fan_out: bool = False
    due: list[int] = field(default_factory=list)
    neglected: list[int] = field(default_factory=list)
    soon: dict[int, float] = field(default_factory=dict)


def look(alias: str) -> Found:
    """Look for waiting events and due deliveries; an endpoint that was just woken is left alone."""
    found = short(alias, _look, durable=False)
    found.fan_out = found.fan_out or any(_waits(outbox) for outbox in current().OUTBOX_DATABASES)
    return found


def wake(found: Found) -> None:
    """Ring for what a tick found; without a queue of their own slow endpoints are never passed over."""
    if current().SLOW_QUEUE_NAME is None:
        found.due, found.neglected = found.due + found.neglected, []
    doorbell.ring(fan_out=found.fan_out, endpoint_ids=found.due, later=found.soon, neglected=found.neglected)


def _waits(outbox_alias: str) -> bool:
    try:
        return has_waiting(outbox_alias)
    except (DatabaseError, InterfaceError) as error:
        logger.warning("outbox database %s does not answer: %s", outbox_alias, type(error).__name__)
        connections[outbox_alias].close()
        return False


def _look(tx: Tx) -> Found:
    now = try_lock(tx, LOCK)
    if now is None:
        return Found()
    # Doctor reads it: the second at which a tick was last seen.
    touch(tx.cursor, LOCK, int(now.timestamp()))
    found = Found(fan_out=has_unfanned(tx))
    rows = _due(tx, now)
    noted = _note(tx, sorted({row[0] for row in rows}), now + PATIENCE)
    for endpoint_id in sorted({row[0] for row in rows if row[1]} & noted.keys()):
        (found.neglected if noted[endpoint_id] else found.due).append(endpoint_id)
    soon = [endpoint_id for endpoint_id, due in rows if not due and endpoint_id in noted]
    found.soon = _waits_of(tx, soon, now)
    return found


def _due(tx: Tx, now: datetime) -> list[tuple[int, bool]]:
    """Return endpoints with something due, now (True) or in a moment, at most MOST of them.

    The search starts anywhere and goes round, so that the first thousands cannot hide the others for ever.
    """
    tx.execute("SELECT max(endpoint_id) FROM webhooks_app_endpointstate")
    start = random.randint(0, tx.row()[0] or 0)
    moment, ahead = tx.dialect.time(now), tx.dialect.time(now + AHEAD)
    rows: list[tuple[int, bool]] = []
    for side in (">=", "<"):
        # In the order of the marks: due now, where to look, the four gates, due in a moment.
        marks = [moment, moment, start, *[moment] * 4, ahead, moment, MOST - len(rows)]
        tx.execute(_DUE.format(side), marks)
        rows += [(endpoint_id, bool(due)) for endpoint_id, due in tx.rows()]
    tx.execute(_PROBES, [*[moment] * 5, MOST])
    return rows + [(row[0], True) for row in tx.rows()]


def _waits_of(tx: Tx, endpoint_ids: list[int], now: datetime) -> dict[int, float]:
    """Return the seconds until the first delivery that comes due in a moment."""
    if not endpoint_ids:
        return {}
    condition, values = tx.dialect.among("endpoint_id", endpoint_ids)
    tx.execute(
        f"""SELECT endpoint_id, min(due_at) FROM webhooks_app_delivery WHERE {condition}
        AND state = 'pending' AND due_at > %s AND due_at <= %s GROUP BY endpoint_id""",
        [*values, tx.dialect.time(now), tx.dialect.time(now + AHEAD)],
    )
    soonest = {endpoint_id: tx.dialect.moment(due_at) or now for endpoint_id, due_at in tx.rows()}
    return {endpoint_id: (due_at - now).total_seconds() for endpoint_id, due_at in soonest.items()}


# The gates come first: a million deliveries held by a pause or a breaker cost one look at their endpoint.
_HELD = """EXISTS (SELECT 1 FROM webhooks_app_endpoint e LEFT JOIN webhooks_app_tenant t ON t.id = e.tenant_id
 LEFT JOIN webhooks_app_partner p ON p.id = COALESCE(e.partner_id, t.partner_id)
 WHERE e.id = s.endpoint_id AND (t.suspended_at IS NOT NULL OR p.suspended_at IS NOT NULL))"""
_UNHELD = f"s.paused_at IS NULL AND (s.hold_until IS NULL OR s.hold_until <= %s) AND NOT {_HELD}"
_BREAKER = """(s.breaker = 'closed' OR ((s.probe_at IS NULL OR s.probe_at <= %s)
AND (s.probe_until IS NULL OR s.probe_until < %s)))"""
_UNWOKEN = "(s.woken_until IS NULL OR s.woken_until <= %s)"
_OPEN = f"(NOT s.enabled OR ({_UNHELD} AND {_BREAKER})) AND {_UNWOKEN}"
_WAITING = """d.endpoint_id = s.endpoint_id AND d.state = 'pending' AND d.priority IN (0, 1, 2, 3)
AND d.due_at <= %s AND (d.lease_until IS NULL OR d.lease_until < %s)"""
_DUE = f"""SELECT s.endpoint_id, EXISTS (SELECT 1 FROM webhooks_app_delivery d WHERE {_WAITING})
FROM webhooks_app_endpointstate s WHERE s.endpoint_id {{}} %s AND {_OPEN}
AND EXISTS (SELECT 1 FROM webhooks_app_delivery d WHERE {_WAITING}) ORDER BY s.endpoint_id LIMIT %s"""
# Breakers whose probe is due, though nothing may be waiting: the endpoint is pinged.
_PROBES = f"""SELECT s.endpoint_id FROM webhooks_app_endpointstate s WHERE s.breaker <> 'closed' AND s.enabled
AND (s.probe_at <= %s OR s.probe_until < %s) AND (s.probe_until IS NULL OR s.probe_until < %s)
AND {_UNHELD} AND {_UNWOKEN} AND EXISTS (SELECT 1 FROM webhooks_app_endpoint e
WHERE e.id = s.endpoint_id AND e.deleted_at IS NULL) LIMIT %s"""


def _note(tx: Tx, endpoint_ids: list[int], until: datetime) -> dict[int, bool]:
    """Note that these endpoints are woken; leaves out, and does not return, those somebody is busy with.

    Returns:
        Whether each was woken before and not looked at since.
    """
    if not endpoint_ids:
        return {}
    condition, values = tx.dialect.among("endpoint_id", endpoint_ids)
    # Locked in id order first, as everywhere: an UPDATE alone locks in the order of its scan.
    tx.execute(
        f"""SELECT endpoint_id, woken_until IS NOT NULL FROM webhooks_app_endpointstate WHERE {condition}
        ORDER BY endpoint_id {tx.dialect.lock_row} {tx.dialect.skip_locked}""",
        values,
    )
    free = {row[0]: bool(row[1]) for row in tx.rows()}
    condition, values = tx.dialect.among("endpoint_id", list(free))
    tx.execute(
        f"UPDATE webhooks_app_endpointstate SET woken_until = %s WHERE {condition}",
        [tx.dialect.time(until), *values],
    )
    return free
