"""Renewal of claims: a chain that takes longer than its claim lasts keeps its lane while it makes progress.

Without it the rest of a slow chain is given back in time, and claimed again; so whatever speaks against a
renewal, the worst that follows is another claim, which passes all the gates.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError

from .batch import Batch
from .gate_rows import lock_gates
from .gates import Gate
from .lease import MARGIN, note_owner
from .transactions import Tx, is_passing, logger, short
from .work import Lease, Unit

EVERY = 1.0

_RENEW = """UPDATE webhooks_app_delivery SET lease_until = %s WHERE {} AND lease_token = %s
AND lease_until >= %s RETURNING endpoint_id"""


class Renewals:
    """Looks after the chains of a process, every second."""

    def __init__(self) -> None:
        self._at = 0.0

    def look(self, alias: str, batches: Iterable[Batch]) -> None:
        """Renew what is half spent; a failure costs this second's renewals and nothing else."""
        now = time.monotonic()
        if now < self._at:
            return
        self._at = now + EVERY
        for batch in batches:
            if units := half_spent(batch, now):
                try:
                    renew(alias, batch.lease, units)
                except (DatabaseError, InterfaceError) as error:
                    is_passing(alias, error)
                    logger.warning("a claim was not renewed: %s", type(error).__name__)
                    return


def half_spent(batch: Batch, now: float) -> list[Unit]:
    """Return what is still to be sent at endpoints with chains under way, when half of their margin is gone.

    The margin is what a claim lasts longer than one request; `now` is monotonic.
    """
    lease, units = batch.lease, batch.under_way
    chained = {unit[0].endpoint_id for unit in units if len(unit) > 1}
    late = {key for key in chained if _spare(lease, key, now) <= MARGIN.total_seconds() / 2}
    return [unit for unit in units if unit[0].endpoint_id in late]


def _spare(lease: Lease, endpoint_id: int, now: float) -> float:
    return lease.seconds_left(now, endpoint_id) - lease.gates[endpoint_id].policy.total_timeout


def renew(alias: str, lease: Lease, units: Sequence[Unit]) -> None:
    """Extend the claim of these units to the length of a new one, and note it in the lease.

    Not where a gate has been shut or the endpoint changed since, nor what has lapsed: somebody may have it.
    """
    renewed = short(alias, lambda tx: _renew(tx, lease, units), durable=False, sidestep=True)
    lease.renewed.update(renewed)


def _renew(tx: Tx, lease: Lease, units: Sequence[Unit]) -> Mapping[int, datetime]:
    gates, now = lock_gates(tx, sorted({unit[0].endpoint_id for unit in units}))
    renewed: dict[int, datetime] = {}
    for gate in gates:
        mine = [job.id for unit in units for job in unit if job.endpoint_id == gate.endpoint_id]
        until = now + MARGIN + timedelta(seconds=gate.policy.total_timeout)
        if _is_unchanged(gate, lease.gates[gate.endpoint_id], now) and _extend(tx, lease, mine, (now, until)):
            renewed[gate.endpoint_id] = until
            note_owner(tx, [gate.endpoint_id], until)
    return renewed


def _is_unchanged(gate: Gate, before: Gate, now: datetime) -> bool:
    same = (gate.generation, gate.revision) == (before.generation, before.revision)
    return same and gate.breaker is None and gate.is_open(now)


def _extend(tx: Tx, lease: Lease, ids: Sequence[int], span: tuple[datetime, datetime]) -> bool:
    now, until = map(tx.dialect.time, span)
    condition, values = tx.dialect.among("id", sorted(ids))
    tx.execute(_RENEW.format(condition), [until, *values, tx.dialect.uuid(lease.token), now])
    return bool(tx.rows())
