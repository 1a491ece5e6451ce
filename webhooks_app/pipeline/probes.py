"""Probes of open breakers: whose outcome counts, and the ping that is sent when nothing is due.

A probe's lease is written into the state row: only the outcome that holds `probe_token` moves the breaker,
and one that never reports lapses with its claim.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from ..core.breaker import begin_probe, due_again
from ..core.policies import Policy
from ..ids import new_id
from .gates import Gate
from .own_body import own_body
from .transactions import Tx
from .work import Content, Job, Unit

PING = "webhook.ping"

_BEGIN = """UPDATE webhooks_app_endpointstate SET breaker = %s, breaker_at = %s, breaker_successes = %s,
probe_at = %s, probe_token = %s, probe_until = %s WHERE endpoint_id = %s"""


def ping(gate: Gate) -> Unit:
    """Return the job that asks an endpoint with nothing due whether it is well again."""
    return (
        Job(
            id=-gate.endpoint_id,
            endpoint_id=gate.endpoint_id,
            event_id=-gate.endpoint_id,
            attempts=0,
            step=0,
            deferrals=0,
            lapses=0,
            occurred=0.0,
            created=0.0,
            started=0.0,
            expires=None,
            generation=gate.generation,
            trigger="probe",
        ),
    )


def ping_contents(jobs: Iterable[Job], gates: Mapping[int, Gate], at: datetime) -> dict[int, Content]:
    """Return what the pings among the jobs send: a signed event that is never fanned out nor replayed."""
    return {job.event_id: _content(gates[job.endpoint_id], at) for job in jobs if job.is_ping}


def _content(gate: Gate, at: datetime) -> Content:
    event_id, data = new_id("evt"), {"webhook_id": gate.public_id}
    body = own_body(event_id, PING, data, tenant_id=gate.tenant_id, at=at)
    return Content(event_id, PING, body)


def begin_probes(
    tx: Tx,
    units: Sequence[Unit],
    gates: Mapping[int, Gate],
    *,
    token: UUID,
    until: datetime,
    now: datetime,
) -> None:
    """Write down the probes among the units: whose outcome will move which breaker."""
    for key in {unit[0].endpoint_id for unit in units if unit[0].trigger == "probe"}:
        before, rule = gates[key].breaker, gates[key].policy.breaker
        if before is None or rule is None:
            continue
        after = begin_probe(rule, before, now)
        time, uuid = tx.dialect.time, tx.dialect.uuid
        facts = [after.state, time(after.at), after.successes, time(after.probe_at)]
        tx.execute(_BEGIN, [*facts, uuid(token), time(until), key])


# In the order of the index that finds them: for another one PostgreSQL may walk the whole table by key.
_STANDING_BACK = """SELECT id FROM webhooks_app_delivery WHERE endpoint_id = %s AND state = 'pending'
AND priority IN (0, 1, 2, 3) AND due_at > %s AND due_at <= %s AND attempts > step + deferrals
AND lease_token IS NULL ORDER BY due_at, id LIMIT %s"""
AT_ONCE = 1_000


def bring_back(tx: Tx, policies: Mapping[int, Policy], now: datetime) -> None:
    """Let deliveries come due that failed as probes and stand back: their endpoints get everything again.

    `policies` are those under which they were probed, by endpoint.
    """
    for endpoint_id, policy in policies.items():
        rule = policy.breaker
        if rule is not None:
            moments = tx.dialect.time(now), tx.dialect.time(due_again(rule, now, final=True))
            tx.execute(_STANDING_BACK, [endpoint_id, *moments, AT_ONCE])
            condition, values = tx.dialect.among("id", [row[0] for row in tx.rows()])
            tx.execute(
                f"UPDATE webhooks_app_delivery SET due_at = %s WHERE {condition}", [moments[0], *values]
            )
