"""Outbox entries that are removed for what they hold: found by their labels, deleted by their keys."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from .transactions import Tx


class Labelled(NamedTuple):
    """An entry with the labels that were asked for. `waits`: no fan-out has finished with it."""

    id: int
    event_id: str
    waits: bool


def read_labelled(
    tx: Tx, labels: Mapping[str, str], before: datetime, *, between: tuple[int, int], limit: int
) -> list[Labelled]:
    """Return entries that were recorded up to `before`, in the order of their keys, the first excluded.

    Args:
        labels: values of `tenant_id`, `identity_id` and `subject`, at least one.
        between: keys, the first excluded.
    """
    condition, values = _with(labels)
    tx.execute(
        f"""SELECT id, event_id, dispatched_at IS NULL FROM webhooks_app_outboxentry
        WHERE id > %s AND id <= %s AND recorded_at <= %s AND {condition} ORDER BY id LIMIT %s""",
        [*between, tx.dialect.time(before), *values, limit],
    )
    return [Labelled(row[0], row[1], bool(row[2])) for row in tx.rows()]


def count_labelled(tx: Tx, labels: Mapping[str, str]) -> int:
    """Return how many entries with these labels no fan-out has finished with."""
    condition, values = _with(labels)
    tx.execute(
        f"SELECT COUNT(*) FROM webhooks_app_outboxentry WHERE dispatched_at IS NULL AND {condition}", values
    )
    return int(tx.row()[0])


def _with(labels: Mapping[str, str]) -> tuple[str, list[str]]:
    names = sorted(labels)
    return " AND ".join(f"{name} = %s" for name in names), [labels[name] for name in names]


def last_key(tx: Tx) -> int:
    """Return the highest key of the outbox."""
    tx.execute("SELECT COALESCE(MAX(id), 0) FROM webhooks_app_outboxentry")
    return int(tx.row()[0])


def delete_entries(tx: Tx, ids: Collection[int], event_ids: Collection[str]) -> None:
    """Delete entries by key and event id: an outbox that was set back gives its keys to other events."""
    if ids:
        condition, values = tx.dialect.among("id", sorted(ids))
        same, names = tx.dialect.among("event_id", sorted(event_ids))
        tx.execute(f"DELETE FROM webhooks_app_outboxentry WHERE {condition} AND {same}", [*values, *names])
