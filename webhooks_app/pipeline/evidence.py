"""Writes the Attempt rows of a record: what was sent and what came back, in one statement."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..destinations.config import EndpointConfig
from .dialect import Dialect
from .judge import Judged
from .transactions import Tx
from .work import Lease

_TYPES = {
    "id": "uuid",
    "delivery_id": "bigint",
    "endpoint_id": "bigint",
    "event_id": "text",
    "event_type": "text",
    "number": "int",
    "trigger": "text",
    "status": "text",
    "error": "text",
    "detail": "text",
    "http_status": "smallint",
    "duration_ms": "int",
    "url": "text",
    "target_ip": "text",
    "body_sha256": "bytea",
    "signature": "text",
    "reply_headers": "jsonb",
    "reply_body": "bytea",
    "next_attempt_at": "timestamptz",
    "created_at": "timestamptz",
}
_QUOTED = {f'"{name}"': kind for name, kind in _TYPES.items()}


def insert_attempts(
    tx: Tx,
    lease: Lease,
    judged: Sequence[Judged],
    configs: Mapping[int, EndpointConfig],
) -> None:
    """Insert one row per attempt."""
    if judged:
        rows = [_row(tx.dialect, lease, each, configs.get(each.job.endpoint_id)) for each in judged]
        tx.insert("webhooks_app_attempt", _QUOTED, rows)


def _row(dialect: Dialect, lease: Lease, each: Judged, config: EndpointConfig | None) -> tuple[Any, ...]:
    job, outcome, result = each.job, each.outcome, each.result
    content, sent = each.done.content, each.done.sent
    return (
        dialect.uuid(lease.attempt_id(job)),
        None if job.is_ping else job.id,
        job.endpoint_id,
        content.event_id if content else "",
        content.type if content else "",
        job.number,
        job.trigger,
        outcome.attempt_status,
        outcome.error,
        result.detail,
        result.http_status,
        result.duration_ms,
        config.shown_url if config else "",
        result.target_ip,
        sent.body_sha256 if sent else None,
        sent.signature if sent else "",
        json.dumps(result.headers),
        result.body,
        dialect.time(outcome.due_at),
        dialect.time(each.done.finished_at),
    )
