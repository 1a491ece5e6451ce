"""One event with its data, also in the moments between its commit and its fan-out."""

import json
from typing import Any

from .. import conf
from ..actions.actor import Actor
from ..actions.scope import get_event
from ..actions.sensitivity import require_for_events
from ..actions.tenancy import partner_of
from ..core.ids import EVENT_ID
from ..exceptions import NotFound
from ..models import Event, OutboxEntry
from ..pipeline.contents import read_contents


def find_event(actor: Actor, public_id: str) -> tuple[Event, Any]:
    """Return the event and its data (None once the body is gone).

    Raises:
        NotFound: `event_not_found`.
        PermissionDenied: without what a sensitive event type takes.
    """
    try:
        event = get_event(actor, public_id)
    except NotFound:
        entry = _waiting(public_id)
        if entry is None or not _is_visible(actor, entry):
            raise
        if not Event.objects.using(conf.current().DATABASE).filter(public_id=public_id).exists():
            require_for_events(actor, [entry.type])
            return entry, _data(bytes(entry.body or b""))
        # The index has it by now, or has long had it for somebody else: its tenant may have moved.
        event = get_event(actor, public_id)
    require_for_events(actor, [event.type])
    content = read_contents(conf.current().DATABASE, [event.pk]).get(event.pk)
    return event, _data(content.body if content else None)


def _waiting(public_id: str) -> Event | None:
    """Return what the index will say of an event that only the outbox has."""
    if not EVENT_ID.fullmatch(public_id):
        return None
    for alias in conf.current().OUTBOX_DATABASES:
        entry = OutboxEntry.objects.using(alias).filter(event_id=public_id).first()
        if entry is not None:
            return _indexed(entry)
    return None


def _indexed(entry: OutboxEntry) -> Event:
    tenant_id = entry.tenant_id
    return Event(
        public_id=entry.event_id,
        type=entry.type,
        tenant_id=tenant_id,
        partner_id=None if tenant_id is None else partner_of(conf.current().DATABASE, tenant_id),
        identity_id=entry.identity_id,
        owner_kind=entry.owner_kind,
        owner_id=entry.owner_id,
        sequence=entry.sequence,
        subject=entry.subject,
        environment=entry.environment,
        occurred_at=entry.occurred_at,
        recorded_at=entry.recorded_at,
        expires_at=entry.expires_at,
        body=entry.body,
    )


def _is_visible(actor: Actor, event: Event) -> bool:
    """Apply the rule of `visible_events` to an event that no query can find yet; fails closed."""
    if actor.environment not in (None, event.environment):
        return False
    if actor.scope == "platform":
        return True
    owner = {"tenant": event.tenant_id, "partner": event.partner_id}.get(actor.scope)
    return owner is not None and owner == actor.scope_id


def _data(body: bytes | None) -> Any:
    return json.loads(body)["data"] if body else None
