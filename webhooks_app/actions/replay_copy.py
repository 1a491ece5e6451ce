"""Copies for a replay under a new `webhook-id`: events of their own, each for one endpoint, marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from ..core.envelope import encode, timestamp
from ..core.states import PENDING
from ..exceptions import ActionError
from ..ids import new_id
from ..models import Delivery, Endpoint, Event
from ..pipeline.contents import read_contents
from ..pipeline.transactions import reading

# Bodies are up to 4 MB; so many of them are held in memory at once.
CHUNK = 50

_KEPT = (
    "type",
    "tenant_id",
    "partner_id",
    "identity_id",
    "owner_kind",
    "owner_id",
    "sequence",
    "subject",
    "environment",
    "occurred_at",
    "expires_at",
    "about_endpoint_id",
)


@dataclass(frozen=True, slots=True)
class Marker:
    """When and by which request an event is replayed; goes into the copy's member `replay`."""

    replayed_at: datetime
    request_id: str | None


def open_copies(alias: str, endpoint: Endpoint, events: Sequence[Event]) -> dict[int, Event]:
    """Return copies of these events, by the original's key, whose delivery to the endpoint is still open."""
    if not events:
        return {}
    keys = {event.pk: event for event in events}
    # A copy has its original's tenant and time: that is the index which finds it.
    tenants = {event.tenant_id for event in events}
    whose = Q(tenant_id__in=[tenant_id for tenant_id in tenants if tenant_id is not None])
    if None in tenants:
        whose |= Q(tenant_id__isnull=True)
    moments = {event.occurred_at for event in events}
    copies = Event.objects.using(alias).filter(whose, occurred_at__in=moments, replay_of__in=list(keys))
    found = {copy.pk: copy for copy in copies.defer("body")}
    rows = Delivery.objects.using(alias).filter(endpoint=endpoint, event_id__in=list(found), state=PENDING)
    still = rows.order_by("event_id").values_list("event_id", flat=True)
    return {key: found[pk] for pk in still if (key := found[pk].replay_of) is not None}


def make_copies(alias: str, events: Sequence[Event], marker: Marker) -> dict[int, Event]:
    """Write a copy of each event and return them by the original's key.

    A copy is never fanned out: it is bound to the endpoint whose delivery the caller makes. Where the
    original's body is gone the copy has none either, and its delivery ends as `event_unavailable`. Of what
    was erased meanwhile there is no copy. The originals stay locked: who erases one finds the copies.

    Raises ActionError (`unavailable`) when an outbox database does not answer.
    """
    made: dict[int, Event] = {}
    for start in range(0, len(events), CHUNK):
        chunk = _held(alias, events[start : start + CHUNK])
        bodies = _bodies(alias, chunk)
        copies = [_copy(event, bodies[event.pk], marker) for event in chunk]
        Event.objects.using(alias).bulk_create(copies)
        for event, copy in zip(chunk, copies, strict=True):
            copy.body = None  # written; no longer needed in memory
            made[event.pk] = copy
    return made


def _held(alias: str, events: Sequence[Event]) -> list[Event]:
    """Lock the originals against an erasure, until the copies are committed; return those not erased yet."""
    with reading(alias) as tx:
        condition, keys = tx.dialect.among("id", sorted(event.pk for event in events))
        tx.execute(
            f"""SELECT id FROM webhooks_app_event WHERE {condition}
            AND (body IS NOT NULL OR outbox_id IS NOT NULL) ORDER BY id {tx.dialect.share_row}""",
            keys,
        )
        held = {row[0] for row in tx.rows()}
    return [event for event in events if event.pk in held]


def _bodies(alias: str, events: Sequence[Event]) -> dict[int, bytes | None]:
    contents = read_contents(alias, [event.pk for event in events])
    if len(contents) < len(events):
        raise ActionError("a database of the outbox does not answer", code="unavailable")
    return {key: content.body for key, content in contents.items()}


def _copy(event: Event, body: bytes | None, marker: Marker) -> Event:
    public_id = new_id("evt")
    return Event(
        **{name: getattr(event, name) for name in _KEPT},
        public_id=public_id,
        recorded_at=marker.replayed_at,
        fanned_out_at=marker.replayed_at,
        replay_of=event.pk,
        body=None if body is None else copied_body(body, event.public_id, public_id, marker),
    )


def copied_body(body: bytes, original_id: str, new_id: str, marker: Marker) -> bytes | None:
    """Return an envelope with another id and a last member `replay`; all other bytes stay as they are.

    None for a body that is no envelope of that event.
    """
    start = b'{"id":"%b"' % original_id.encode()
    if not body.startswith(start) or not body.endswith(b"}"):
        return None
    replay = encode(
        {
            "original_event_id": original_id,
            "replayed_at": timestamp(marker.replayed_at),
            "request_id": marker.request_id,
        }
    )
    return b'{"id":"%b"%b,"replay":%b}' % (new_id.encode(), body[len(start) : -1], replay)
