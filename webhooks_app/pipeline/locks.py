"""Named row locks: fan-out and tick run one at a time, and positions are given in commit order."""

from typing import Any

from .transactions import Tx


def try_lock(tx: Tx, name: str) -> bool:
    """Lock the row `name` until the transaction ends; False when somebody else holds it."""
    for _ in range(2):
        tx.execute(f"SELECT 1 FROM webhooks_app_pipelinelock WHERE name = %s {tx.dialect.try_lock}", [name])
        if tx.row():
            return True
        tx.execute("SELECT 1 FROM webhooks_app_pipelinelock WHERE name = %s", [name])
        if tx.row():
            return False
        _create(tx.cursor, name)
    return False


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
