"""A database that has seen many deliveries: events, outbox, deliveries, attempts, all ended."""

from datetime import timedelta
from typing import Any

from django.db import connection

from bench import filling, sample

PER_EVENT = 10
_BODY_AND_TIME = """convert_to(%(body)s, 'UTF8') AS body,
now() - %(oldest)s + n * (%(span)s / %(events)s) AS moment
FROM generate_series(1, %(events)s) n"""

_OUTBOX = f"""INSERT INTO webhooks_app_outboxentry
(event_id, type, tenant_id, environment, body, occurred_at, recorded_at, dispatched_at, failures)
SELECT 'evt_old' || n, %(type)s, %(tenant)s, 'live', body, moment, moment, moment, 0
FROM (SELECT n, {_BODY_AND_TIME}) AS made"""

_EVENTS = """INSERT INTO webhooks_app_event
(public_id, type, tenant_id, environment, occurred_at, recorded_at, outbox_alias, outbox_id, fanned_out_at,
 fan_out_cursor)
SELECT event_id, type, tenant_id, environment, occurred_at, recorded_at, 'default', id, dispatched_at, 0
FROM webhooks_app_outboxentry ORDER BY id"""

_DELIVERIES = """INSERT INTO webhooks_app_delivery
(endpoint_id, event_id, state, priority, attempts, step, deferrals, lapses, position, occurred_at, last_error,
 first_delivered_at, created_at, finished_at)
SELECT endpoint_id, e.id, %(state)s, 0, 1, 0, 0, 0, row_number() OVER (), e.occurred_at,
 CASE WHEN %(state)s = 'delivered' THEN '' ELSE 'status_5xx' END,
 CASE WHEN %(state)s = 'delivered' THEN e.occurred_at END, e.occurred_at, e.occurred_at
FROM webhooks_app_event e CROSS JOIN unnest(%(endpoints)s::bigint[]) AS endpoint_id
ORDER BY e.id, endpoint_id"""

# Keys rise with time, like those of real attempts.
_ATTEMPTS = """INSERT INTO webhooks_app_attempt
(id, delivery_id, endpoint_id, event_id, event_type, number, trigger, status, error, detail, http_status,
 duration_ms, url, target_ip, body_sha256, signature, reply_headers, reply_body, created_at)
SELECT lpad(to_hex(d.id), 32, '0')::uuid, d.id, d.endpoint_id, e.public_id, e.type, 1, 'schedule',
 'succeeded', '', '', 200, 3, 'http://receiver.bench/fast/0/', '127.0.0.1', sha256(e.public_id::bytea),
 repeat('s', 47), '[["Content-Type", "text/plain"]]', 'ok', d.created_at
FROM webhooks_app_delivery d JOIN webhooks_app_event e ON e.id = d.event_id ORDER BY d.id"""


def fill(
    tenant: str,
    endpoint_ids: list[int],
    deliveries: int,
    *,
    days: tuple[int, int] = (29, 1),
    state: str = "delivered",
    attempts: bool = True,
) -> None:
    """Write ended deliveries of `tenant`, evenly to its endpoints.

    Args:
        days: how old the oldest and the newest event are.
        state: how they ended; `delivered`, or dead.
        attempts: whether each has one attempt in evidence.
    """
    values: dict[str, Any] = {
        "body": sample.body("evt_old").decode(),
        "events": deliveries // len(endpoint_ids),
        "oldest": timedelta(days=days[0]),
        "span": timedelta(days=days[0] - days[1]),
        "type": sample.TYPE,
        "tenant": tenant,
        "endpoints": endpoint_ids,
        "state": state,
    }
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        for statement in (_OUTBOX, _EVENTS, _DELIVERIES, *([_ATTEMPTS] if attempts else [])):
            cursor.execute(statement, values)
        cursor.execute("SET synchronous_commit = on")
        cursor.execute("VACUUM ANALYZE")
    filling.analyze()
