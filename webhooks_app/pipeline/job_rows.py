"""The row of a job in a batch's transaction: held by its claim, moved on together with what was done."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from . import clock
from .transactions import Tx


class ClaimLostError(Exception):
    """Another worker has the job, or somebody has ended it: nothing of this batch may be written."""


@dataclass(frozen=True, slots=True)
class Held:
    """A job whose row this transaction has locked, and the time."""

    id: int
    total: int
    done: int
    skipped: int
    is_cancelled: bool
    now: datetime


def hold(tx: Tx, job_id: int, *, claimed_until: datetime, cursor: int) -> Held:
    """Lock the row of a job; it must be as it was claimed.

    Raises ClaimLostError.
    """
    tx.execute(
        f"""SELECT COALESCE(j.total, 0), j.done, j.skipped, j.cancel_requested_at IS NOT NULL,
        {tx.dialect.now_sql} FROM (SELECT total, done, skipped, cancel_requested_at FROM webhooks_app_job
        WHERE id = %s AND state = 'running' AND claimed_until = %s AND cursor = %s
        {tx.dialect.lock_row}) AS j""",
        [job_id, tx.dialect.time(claimed_until), cursor],
    )
    row = tx.row()
    if row is None:
        raise ClaimLostError
    return Held(job_id, row[0], row[1], row[2], bool(row[3]), clock.read(row[4]))


def move_on(
    tx: Tx, held: Held, *, cursor: int, done: int, skipped: int, rest: timedelta = timedelta()
) -> None:
    """Note how far the job is and when it got there, and let whoever comes next have it, after its rest."""
    tx.execute(
        """UPDATE webhooks_app_job SET cursor = %s, done = %s, skipped = %s, claimed_until = %s
        WHERE id = %s""",
        [cursor, held.done + done, held.skipped + skipped, tx.dialect.time(held.now + rest), held.id],
    )


def note(tx: Tx, job_id: int, params: Mapping[str, Any]) -> None:
    """Store what a job goes by from here on, as JSON; its row is locked."""
    tx.execute("UPDATE webhooks_app_job SET params = %s WHERE id = %s", [json.dumps(params), job_id])


def finish(tx: Tx, held: Held, state: str, *, done: int, skipped: int, error: str = "") -> None:
    """End a job; when it succeeded, what was counted and not done is skipped."""
    done += held.done
    skipped += held.skipped
    if state == "succeeded":
        skipped = max(skipped, held.total - done)
    tx.execute(
        """UPDATE webhooks_app_job SET state = %s, done = %s, skipped = %s, total = %s, error = %s,
        finished_at = %s, claimed_until = NULL WHERE id = %s""",
        [
            state,
            done,
            skipped,
            max(held.total, done + skipped),
            error,
            tx.dialect.time(held.now),
            held.id,
        ],
    )
    # The labels that an erasure looked for may be what was to be forgotten.
    tx.execute("UPDATE webhooks_app_job SET params = '{}' WHERE id = %s AND kind = 'erase'", [held.id])


def lock_orderings(tx: Tx, endpoint_ids: Collection[int]) -> dict[int, str | None]:
    """Lock the state rows of these endpoints; return the ordering of each, None for a disabled one.

    Deleted ones are left out.
    """
    condition, values = tx.dialect.among("endpoint_id", sorted(endpoint_ids))
    tx.execute(
        f"""SELECT endpoint_id, enabled FROM webhooks_app_endpointstate WHERE {condition}
        ORDER BY endpoint_id {tx.dialect.lock_row}""",
        values,
    )
    enabled = {row[0]: bool(row[1]) for row in tx.rows()}
    # A later statement: it sees what was committed while the lock was waited for.
    condition, values = tx.dialect.among("id", sorted(enabled))
    tx.execute(
        f"SELECT id, ordering FROM webhooks_app_endpoint WHERE {condition} AND deleted_at IS NULL", values
    )
    return {row[0]: row[1] if enabled[row[0]] else None for row in tx.rows()}
