"""Events the sender itself makes, written straight into the index with their body."""

from datetime import datetime
from json import dumps

from ..conf import current
from ..core import envelope
from ..core.ids import system_event_id
from ..ids import new_id
from .health import StateRow
from .judge import Judged
from .tenancy import partners_of
from .transactions import Tx
from .work import Lease

DISABLED = "webhook.disabled"

_SUBJECT = """SELECT public_id, tenant_id, partner_id, environment FROM webhooks_app_endpoint WHERE id = %s"""

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


_AUDIT_TYPES = {
    "public_id": "text",
    "action": "text",
    "actor_kind": "text",
    "actor_id": "text",
    "target_type": "text",
    "target_id": "text",
    "tenant_id": "text",
    "partner_id": "text",
    "request_id": "text",
    "details": "jsonb",
    "created_at": "timestamptz",
}


def announce_disabled(tx: Tx, lease: Lease, state: StateRow) -> None:
    """Write `webhook.disabled` about an endpoint, in the transaction that disables it.

    Its id follows from the attempt that caused it, so a repeated record cannot write it twice. Only the
    policy's `notify_tenant` lets the tenant's other endpoints have it; the subject itself never does.
    """
    trigger = state.disabled_by
    if trigger is None:
        return
    tx.execute(_SUBJECT, [state.endpoint_id])
    public_id, tenant_id, partner_id, environment = tx.row()
    if tenant_id is not None:
        partner_id = partners_of(tx, [tenant_id]).get(tenant_id)
    at = state.disabled_at or trigger.done.finished_at
    event_id, moment = _id(public_id, trigger), tx.dialect.time(at)
    told = tenant_id if lease.gates[state.endpoint_id].policy.notify_tenant else None
    values = {
        "public_id": event_id,
        "type": DISABLED,
        "tenant_id": told,
        "partner_id": partner_id,
        "environment": environment,
        "occurred_at": moment,
        "recorded_at": moment,
        "body": _body(event_id, at, tenant_id, {"webhook_id": public_id, "reason": state.disabled_reason}),
        "about_endpoint_id": state.endpoint_id,
        "fan_out_cursor": 0,
    }
    row = tuple(values[column] for column in _TYPES)
    tx.insert("webhooks_app_event", _TYPES, [row], tail="ON CONFLICT (public_id) DO NOTHING")
    details = {"reason": state.disabled_reason, "event_id": event_id}
    target = (public_id, tenant_id, None if tenant_id is not None else partner_id)
    entry = (new_id("aud"), DISABLED, "system", "deliveries", "webhook", *target, "", dumps(details), moment)
    tx.insert("webhooks_app_auditentry", _AUDIT_TYPES, [entry])


def _id(public_id: str, trigger: Judged) -> str:
    content = trigger.done.content
    seed = f"{DISABLED}:{public_id}:{content.event_id if content else ''}:{trigger.job.number}"
    return system_event_id(at=trigger.done.finished_at, seed=seed)


def _body(event_id: str, at: datetime, tenant_id: str | None, data: dict[str, str | None]) -> bytes:
    return envelope.build(
        id=event_id,
        type=DISABLED,
        api_version=current().API_VERSION,
        occurred_at=at,
        tenant_id=tenant_id,
        identity_id=None,
        sequence=None,
        data=data,
        max_bytes=current().MAX_BODY_BYTES,
    )
