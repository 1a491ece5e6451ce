"""Events the sender itself makes, written straight into the index with their body, and the audit of its acts.

Both belong to the transaction of the change they tell of.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from json import dumps
from typing import Any

from ..core import envelope
from ..core.ids import system_event_id
from ..core.matching import OPERATIONAL
from ..core.states import EXHAUSTED
from ..ids import new_id
from .gates import Gate
from .judge import Judged
from .own_body import own_body
from .tenancy import partners_of
from .transactions import Tx
from .work import News

Change = tuple[News, Judged]

# What people are told by an event; all else is in the audit alone.
_EVENT_OF = {
    "webhook.disabled": "webhook.disabled",
    "webhook.recovered": "webhook.recovered",
    "webhook.warned": "webhook.warning",
}
EXHAUSTED_EVENT = "webhook.attempt_exhausted"

_SUBJECTS = "SELECT id, public_id, tenant_id, partner_id, environment FROM webhooks_app_endpoint WHERE {}"
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


@dataclass(frozen=True, slots=True)
class _Subject:
    """The endpoint that an event or entry is about; `partner_id` is its own or its tenant's."""

    key: int
    public_id: str
    tenant_id: str | None
    own_partner_id: str | None
    environment: str
    partner_id: str | None


def write_changes(tx: Tx, changes: Sequence[Change], gates: Mapping[int, Gate], now: datetime) -> None:
    """Write the audit entries and the events of changes of health.

    An event's id follows from the attempt that caused it, so a repeated record cannot write it twice.
    """
    if not changes:
        return
    subjects = _subjects(tx, {news.endpoint_id for news, _ in changes})
    events = [(_EVENT_OF[news.kind], news, each) for news, each in changes if news.kind in _EVENT_OF]
    ids = _insert_events(tx, events, subjects, gates=gates, now=now)
    for news, _ in changes:
        details = {"reason": news.reason, **_plain(news.data)}
        if news.kind in _EVENT_OF:
            details["event_id"] = ids[news.kind, news.endpoint_id, news.reason]
        _audit(tx, news.kind, subjects[news.endpoint_id], details, now=now)


def write_exhausted(tx: Tx, judged: Sequence[Judged], gates: Mapping[int, Gate], now: datetime) -> None:
    """Write `webhook.attempt_exhausted` about deliveries whose schedule ended.

    Never about an operational event: two dead receivers of those would tell each other for ever.
    """
    events = [(EXHAUSTED_EVENT, _exhausted(each), each) for each in judged if _is_exhausted(each)]
    if events:
        subjects = _subjects(tx, {news.endpoint_id for _, news, _ in events})
        _insert_events(tx, events, subjects, gates=gates, now=now)


def _is_exhausted(each: Judged) -> bool:
    type = each.done.content.type if each.done.content else ""
    return each.ends and each.outcome.state == EXHAUSTED and type not in OPERATIONAL


def _exhausted(each: Judged) -> News:
    content = each.done.content
    data = {
        "event_id": content.event_id if content else "",
        "event_type": content.type if content else "",
        "attempts": each.job.number,
        "error": each.outcome.error,
    }
    return News(EXHAUSTED_EVENT, each.job.endpoint_id, "exhausted", data)


def _subjects(tx: Tx, keys: Collection[int]) -> dict[int, _Subject]:
    condition, values = tx.dialect.among("id", sorted(keys))
    tx.execute(_SUBJECTS.format(condition), values)
    found = {row[0]: _Subject(row[0], row[1], row[2], row[3], row[4], row[3]) for row in tx.rows()}
    partners = partners_of(tx, {each.tenant_id for each in found.values() if each.tenant_id is not None})
    return {
        key: replace(each, partner_id=partners.get(each.tenant_id)) if each.tenant_id is not None else each
        for key, each in found.items()
    }


def _insert_events(
    tx: Tx,
    events: Sequence[tuple[str, News, Judged]],
    subjects: Mapping[int, _Subject],
    *,
    gates: Mapping[int, Gate],
    now: datetime,
) -> dict[tuple[str, int, str], str]:
    """Insert the events; return their ids by kind of news, endpoint and reason.

    Only the policy's `notify_tenant` lets the tenant's other endpoints have them; the subject never does.
    """
    rows: dict[str, tuple[Any, ...]] = {}
    ids: dict[tuple[str, int, str], str] = {}
    moment = tx.dialect.time(now)
    for type, news, each in events:
        subject = subjects[news.endpoint_id]
        event_id = _id(type, subject, news, each)
        told = subject.tenant_id if gates[news.endpoint_id].policy.notify_tenant else None
        body = _body(event_id, type, subject, news, at=now)
        who = (told, subject.partner_id, subject.environment)
        rows[event_id] = (event_id, type, *who, moment, moment, body, subject.key, 0)
        ids[news.kind, news.endpoint_id, news.reason] = event_id
    if rows:
        tail = "ON CONFLICT (public_id) DO NOTHING"
        tx.insert("webhooks_app_event", _TYPES, [rows[key] for key in sorted(rows)], tail=tail)
    return ids


def _id(type: str, subject: _Subject, news: News, each: Judged) -> str:
    content = each.done.content
    seed = f"{type}:{subject.public_id}:{content.event_id if content else ''}:{each.job.number}"
    if type == "webhook.warning":
        seed += f":{news.reason}"
    return system_event_id(at=each.done.finished_at, seed=seed)


def _body(event_id: str, type: str, subject: _Subject, news: News, *, at: datetime) -> bytes:
    reason = {} if type == EXHAUSTED_EVENT else {"reason": news.reason}
    data = {"webhook_id": subject.public_id, **reason, **_plain(news.data)}
    return own_body(event_id, type, data, tenant_id=subject.tenant_id, at=at)


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: envelope.timestamp(value) if isinstance(value, datetime) else value
        for name, value in data.items()
    }


def _audit(tx: Tx, action: str, subject: _Subject, details: Mapping[str, Any], *, now: datetime) -> None:
    who = ("system", "deliveries", "webhook", subject.public_id, subject.tenant_id, subject.own_partner_id)
    entry = (new_id("aud"), action, *who, "", dumps(details), tx.dialect.time(now))
    tx.insert("webhooks_app_auditentry", _AUDIT_TYPES, [entry])
