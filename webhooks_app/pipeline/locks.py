"""Named row locks: fan-out and tick run one at a time, and positions are given in commit order."""

from datetime import datetime
from typing import Any

from . import clock
from .transactions import Tx


def fan_out_lock(outbox_alias: str) -> str:
    """Return the name of the row that the fan-out of an outbox database holds."""
    return f"fan_out:{outbox_alias}"


def try_lock(tx: Tx, name: str) -> datetime | None:
    """Lock the row `name` until the transaction ends; return the time, None when somebody else has it."""
    for _ in range(2):
        tx.execute(
            f"""SELECT {tx.dialect.now_sql} FROM webhooks_app_pipelinelock
            WHERE name = %s {tx.dialect.try_lock}""",
            [name],
        )
        row = tx.row()
        if row:
            return clock.read(row[0])
        tx.execute("SELECT 1 FROM webhooks_app_pipelinelock WHERE name = %s", [name])
        if tx.row():
            return None
        _create(tx.cursor, name)
    return None


def wait_for(tx: Tx, *, name: str) -> None:
    """Return when whoever held the row `name` has ended; it stays locked until this transaction ends."""
    _create(tx.cursor, name)  # waits, too, for whoever is just making it
    tx.execute(f"SELECT 1 FROM webhooks_app_pipelinelock WHERE name = %s {tx.dialect.lock_row}", [name])


def next_positions(cursor: Any, count: int) -> int:
    """Draw `count` positions, return the first; the row stays locked: positions rise in order of commits."""
    for _ in range(2):
        cursor.execute(
            "UPDATE webhooks_app_pipelinelock SET value = value + %s WHERE name = %s RETURNING value",
            [count, "position"],
        )
        row = cursor.fetchone()
        if row:
            return int(row[0]) - count + 1
        _create(cursor, "position")
    raise RuntimeError("the position counter vanished")


def touch(cursor: Any, name: str, value: int) -> None:
    """Store a number with a lock row that this transaction holds."""
    cursor.execute("UPDATE webhooks_app_pipelinelock SET value = %s WHERE name = %s", [value, name])


def _create(cursor: Any, name: str) -> None:
    cursor.execute(
        "INSERT INTO webhooks_app_pipelinelock (name, value) VALUES (%s, 0) ON CONFLICT (name) DO NOTHING",
        [name],
    )
