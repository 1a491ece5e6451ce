"""One attempt of one delivery, now, because a person asks for it: leased, sent and recorded in the caller.

Neither pauses nor breakers nor windows stop it, and its failure leaves the schedule, or the end, as it was.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError

from ..ids import new_token
from .batch import Batch, OutcomesKeptError, contents_of, prepare
from .claim import claim_one
from .follow_up import Recorded
from .gate_rows import lock_gates
from .lease import MARGIN
from .record import give_back
from .sending import Configs
from .transactions import Tx, is_passing, short
from .work import Lease

RECORD_AGAIN = 0.2


class InFlightError(Exception):
    """The delivery is being sent at this moment."""


class GoneError(Exception):
    """The delivery, or its endpoint, is no more."""


@dataclass(frozen=True, slots=True)
class Manual:
    """What came of it: the attempt's id (None: its body cannot be read just now) and the delivery's state."""

    attempt_id: UUID | None
    state: str


def send_now(alias: str, delivery_id: int) -> Manual:
    """Make one attempt of a delivery, open or ended; waits up to the policy's total timeout.

    Call it outside of a transaction.

    Raises:
        InFlightError: somebody is sending it.
        GoneError: it, or its endpoint, is deleted.
        OutcomesKeptError, DatabaseError: it was sent, and nobody could write it down while its claim held.
    """
    held = short(alias, lambda tx: _lease(tx, delivery_id))
    configs, (job,) = Configs(), held.jobs
    try:
        prepare(alias, held, configs)
        contents = contents_of(alias, held)
    except Exception:
        give_back(alias, held)
        raise
    batch = Batch(held, contents, lambda _: None)
    batch.send(held.units[0], configs.get(job.endpoint_id), lambda: False)
    recorded = _record(alias, batch, configs)
    if not recorded.attempts:
        return Manual(None, job.state)
    return Manual(held.attempt_id(job), str(recorded.attempts[0].outcome.state))


def _record(alias: str, batch: Batch, configs: Configs) -> Recorded:
    """Record the outcome, again and again while the claim holds: what was sent is not to be forgotten."""
    while True:
        try:
            return batch.record(alias, configs)
        except (OutcomesKeptError, OperationalError, InterfaceError) as error:
            if not isinstance(error, OutcomesKeptError):
                is_passing(alias, error)
            if batch.lease.seconds_left(time.monotonic()) <= RECORD_AGAIN:
                raise
        time.sleep(RECORD_AGAIN)


def _lease(tx: Tx, delivery_id: int) -> Lease:
    tx.execute("SELECT endpoint_id FROM webhooks_app_delivery WHERE id = %s", [delivery_id])
    row: tuple[Any, ...] | None = tx.row()
    if row is None:
        raise GoneError
    gates, now = lock_gates(tx, [row[0]])
    if not gates or gates[0].deleted:
        raise GoneError
    token, gate = new_token(), gates[0]
    until = now + MARGIN + timedelta(seconds=gate.policy.total_timeout)
    job = claim_one(tx, delivery_id, gate, token=token, until=until, now=now)
    if job is None:
        raise InFlightError
    return Lease(
        token=token,
        claimed_at=now,
        until=until,
        mark=time.monotonic(),
        units=((job,),),
        gates={gate.endpoint_id: gate},
    )
