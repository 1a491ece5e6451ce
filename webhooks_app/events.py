"""The front door: `emit` and `emit_many` record events in the caller's transaction."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.models import Model
from django.utils import timezone

from .conf import current
from .exceptions import InvalidEvent, OutboxError
from .pipeline import doorbell
from .pipeline.append import EventRef, append
from .pipeline.draft import Draft, draft
from .pipeline.retention import Days, read_days

__all__ = ["EventRef", "emit", "emit_many"]

Reference = str | Model
Owner = tuple[str, str] | Model

_KEYS = frozenset(
    {
        "type",
        "data",
        "tenant",
        "identity",
        "owner",
        "subject",
        "event_id",
        "occurred_at",
        "expires_at",
        "environment",
    }
)


def emit(
    type: str,
    data: Any,
    *,
    tenant: Reference | None = None,
    identity: Reference | None = None,
    owner: Owner | None = None,
    subject: str | None = None,
    event_id: str | None = None,
    occurred_at: datetime | None = None,
    expires_at: datetime | None = None,
    environment: str = "live",
    using: str | None = None,
) -> EventRef:
    """Record one event; it leaves if, and only if, the surrounding transaction commits.

    Args:
        type: words joined by full stops, such as `order.paid`.
        data: anything JSON can say; Decimals, UUIDs, dates and lazy strings as Django's encoder writes them.
        tenant: whose event it is; only endpoints that may see this tenant get it. None: platform endpoints.
        identity: a finer label that endpoints may filter on.
        owner: whose sequence numbers the event, as (kind, id) or a saved instance. The owner's row stays
            locked until the caller commits, so emit late, and give hot streams no owner.
        subject: what the event is about, at most 256 characters.
        event_id: your own id, 1 to 64 of A-Z a-z 0-9 _ -; a second emit with it changes nothing.
        occurred_at: aware; at most 1 hour ahead and within the tenant's retention. Default: now.
        expires_at: aware; no attempt starts after it.
        environment: `live` or `test`.
        using: alias of the outbox database; default: the WEBHOOKS setting DATABASE.

    Returns:
        EventRef(id, sequence, created).

    Raises:
        OutboxError: outside `transaction.atomic()`, unless REQUIRE_ATOMIC is off.
        InvalidEvent: a value is refused; nothing was written and the transaction stays usable.
        EventTooLarge: the envelope exceeds MAX_BODY_BYTES.
    """
    values = {
        "type": type,
        "data": data,
        "tenant": tenant,
        "identity": identity,
        "owner": owner,
        "subject": subject,
        "event_id": event_id,
        "occurred_at": occurred_at,
        "expires_at": expires_at,
        "environment": environment,
    }
    return _record([draft(values, _days(using), timezone.now())], using)[0]


def emit_many(events: Iterable[Mapping[str, Any]], *, using: str | None = None) -> list[EventRef]:
    """Record many events in one go; each item holds the arguments of `emit` by name.

    Owners are locked in key order, so two batches cannot deadlock; two single emits for two owners in
    opposite order can.

    Raises:
        OutboxError: as `emit`.
        InvalidEvent: as `emit`; the path starts with the item's index, such as `/3/data/price`.
    """
    days, now = _days(using), timezone.now()
    drafts = [_draft_item(place, item, days, now) for place, item in enumerate(events)]
    return _record(drafts, using) if drafts else []


def _draft_item(place: int, item: Mapping[str, Any], days: Days, now: datetime) -> Draft:
    if not isinstance(item, Mapping) or not {"type", "data"} <= item.keys():
        raise InvalidEvent(f"/{place}", 'must be a dict with at least "type" and "data"')
    for key in item.keys() - _KEYS:
        raise InvalidEvent(f"/{place}/{key}", f"is not an argument; known are {', '.join(sorted(_KEYS))}")
    return draft(item, days, now, path=f"/{place}")


def _days(using: str | None) -> Days:
    """Return who says how long a tenant's events are retained.

    Where the outbox is in another database, one of deliveries that does not answer stops nobody.
    """
    settings = current()

    @cache
    def ask(tenant_id: str | None) -> int:
        try:
            return read_days(settings.DATABASE, tenant_id)
        except (DatabaseError, InterfaceError):
            if (using or settings.DATABASE) == settings.DATABASE:
                raise
            return settings.RETENTION_DAYS

    return ask


def _record(drafts: list[Draft], using: str | None) -> list[EventRef]:
    settings = current()
    alias = using or settings.DATABASE
    if alias not in settings.OUTBOX_DATABASES:
        raise OutboxError(f'database "{alias}" is not in WEBHOOKS["OUTBOX_DATABASES"]')
    if connections[alias].in_atomic_block:
        refs = append(alias, drafts, settings)
    elif settings.REQUIRE_ATOMIC:
        raise OutboxError("call emit() inside transaction.atomic(), with the change it tells of")
    else:
        with transaction.atomic(using=alias):
            refs = append(alias, drafts, settings)
            doorbell.ring_on_commit(alias, fan_out=True)
            return refs
    doorbell.ring_on_commit(alias, fan_out=True)
    return refs
