"""Draft: what a caller wants to emit, checked; the outbox row but for its sequence and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model

from ..core.ids import IdError, check_event_id
from ..core.matching import EVENT_TYPE
from ..exceptions import InvalidEvent
from .retention import LEAST, Days

ENVIRONMENTS = ("live", "test")
RESERVED_TYPES = "webhook."
AHEAD = timedelta(hours=1)
_LENGTHS = {"tenant": 128, "identity": 128, "owner kind": 64, "owner id": 128, "subject": 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One event as given, every value checked but `data`. `event_id` is None when the sender makes it."""

    path: str = ""
    type: str
    data: Any
    tenant_id: str | None
    identity_id: str | None
    owner: tuple[str, str] | None
    subject: str | None
    event_id: str | None
    occurred_at: datetime
    expires_at: datetime | None
    environment: str


def draft(values: Mapping[str, Any], days: Days, now: datetime, *, path: str = "") -> Draft:
    """Check the arguments of one emit.

    Args:
        days: says how many days a tenant's events are retained; not asked about events of the last day.
        path: leads to the values in a list.

    Raises:
        InvalidEvent: naming the argument.
    """
    try:
        return _draft(values, days, now, path)
    except InvalidEvent as error:
        raise InvalidEvent(f"{path}/{error.path}" if path else error.path, error.message) from None


def _draft(values: Mapping[str, Any], days: Days, now: datetime, path: str) -> Draft:
    return Draft(
        path=path,
        type=_type(values["type"]),
        data=values["data"],
        tenant_id=(tenant_id := _reference("tenant", values.get("tenant"))),
        identity_id=_reference("identity", values.get("identity")),
        owner=_owner(values.get("owner")),
        subject=_reference("subject", values.get("subject")),
        event_id=_event_id(values.get("event_id")),
        occurred_at=_occurred_at(values.get("occurred_at"), tenant_id, days, now),
        expires_at=_expires_at(values.get("expires_at"), now),
        environment=_environment(values.get("environment", "live")),
    )


def _type(value: object) -> str:
    if not isinstance(value, str) or len(value) > 128 or not EVENT_TYPE.fullmatch(value):
        raise InvalidEvent(
            "type", "must be words of A-Z a-z 0-9 _ joined by full stops, at most 128 characters"
        )
    if value.startswith(RESERVED_TYPES):
        raise InvalidEvent("type", "types under webhook. are the sender's own; choose another first word")
    return value


def _reference(name: str, value: object) -> str | None:
    """A string, or a saved model instance standing for its primary key."""
    if value is None:
        return None
    if isinstance(value, Model):
        value = _key_of(name, value)
    limit = _LENGTHS[name]
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise InvalidEvent(name, f"must be a string of 1 to {limit} characters or a saved model instance")
    if "\x00" in value or not _is_encodable(value):
        raise InvalidEvent(name, "must not hold NUL or half of a surrogate pair")
    return value


def _key_of(name: str, instance: Model) -> str:
    if instance.pk is None or instance._state.adding:
        raise InvalidEvent(name, "is a model instance that is not saved yet; save it first")
    return str(instance.pk)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _owner(value: object) -> tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, Model):
        return str(value._meta.model_name), _key_of("owner", value)
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidEvent("owner", "must be a pair (kind, id) or a saved model instance")
    kind, owner_id = _reference("owner kind", value[0]), _reference("owner id", value[1])
    if kind is None or owner_id is None:
        raise InvalidEvent("owner", "must be a pair (kind, id) without None")
    return kind, owner_id


def _event_id(value: object) -> str | None:
    if value is None:
        return None
    try:
        check_event_id(value)  # type: ignore[arg-type]
    except IdError as error:
        raise InvalidEvent("event_id", str(error)) from None
    return str(value)


def _occurred_at(value: object, tenant_id: str | None, days: Days, now: datetime) -> datetime:
    if value is None:
        return now
    moment = _aware("occurred_at", value)
    if now - LEAST < moment <= now + AHEAD:
        return moment
    kept = days(tenant_id)
    if not now - timedelta(days=kept) < moment <= now + AHEAD:
        raise InvalidEvent("occurred_at", f"must lie within {kept} days back and 1 hour ahead")
    return moment


def _expires_at(value: object, now: datetime) -> datetime | None:
    if value is None:
        return None
    moment = _aware("expires_at", value)
    if moment <= now:
        raise InvalidEvent("expires_at", "is over already; leave it out or give a later moment")
    return moment


def _aware(name: str, value: object) -> datetime:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidEvent(name, "must be a datetime with a time zone")
    return value


def _environment(value: object) -> str:
    if value not in ENVIRONMENTS:
        raise InvalidEvent("environment", f"must be one of {', '.join(ENVIRONMENTS)}")
    return str(value)
