"""Events the sender itself makes, written straight into the index with their body."""

from datetime import datetime
from typing import Any

from ..conf import current
from ..core import envelope
from ..core.ids import system_event_id
from .dialect import Dialect
from .health import StateRow
from .judge import Judged
from .work import Lease

_SUBJECT = """SELECT e.public_id, e.tenant_id, COALESCE(e.partner_id, t.partner_id), e.environment
FROM webhooks_app_endpoint e LEFT JOIN webhooks_app_tenant t ON t.id = e.tenant_id WHERE e.id = %s"""

_TYPES = {
    "public_id": "text",
    "type": "text",
    "tenant_id": "text",
    "partner_id": "text",
    "environment": "text",
    "occurred_at": "timestamptz",
    "recorded_at": "timestamptz",
    "body": "bytea",
    "about_endpoint_id": "bigint",
    "fan_out_cursor": "bigint",
}


def announce_disabled(
    cursor: Any, dialect: Dialect, lease: Lease, row: StateRow, trigger: Judged, now: datetime
) -> None:
    """Write `webhook.disabled` about an endpoint, in the transaction that disables it.

    Its id follows from the attempt that caused it, so a repeated record cannot write it twice. Only the
    policy's `notify_tenant` lets the tenant's other endpoints have it; the subject itself never does.
    """
    cursor.execute(_SUBJECT, [row.endpoint_id])
    public_id, tenant_id, partner_id, environment = cursor.fetchone()
    content = trigger.done.content
    event_public_id = content.event_id if content else ""
    event_id = system_event_id(
        at=trigger.done.finished_at,
        seed=f"webhook.disabled:{public_id}:{event_public_id}:{trigger.job.number}",
    )
    body = envelope.build(
        id=event_id,
        type="webhook.disabled",
        api_version=current().API_VERSION,
        occurred_at=now,
        tenant_id=tenant_id,
        identity_id=None,
        sequence=None,
        data={"webhook_id": public_id, "reason": row.disabled_reason},
        max_bytes=current().MAX_BODY_BYTES,
    )
    told = tenant_id if lease.gates[row.endpoint_id].policy.notify_tenant else None
    moment = dialect.time(now)
    values = (
        event_id,
        "webhook.disabled",
        told,
        partner_id,
        environment,
        moment,
        moment,
        body,
        row.endpoint_id,
        0,
    )
    dialect.insert(cursor, "webhooks_app_event", _TYPES, [values], "ON CONFLICT (public_id) DO NOTHING")
