"""CloudEvents over HTTP (bindings/http-protocol-binding.md 1.0.2): the form one came in, and what it says."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from rest_framework.exceptions import ValidationError

from .ingest import Names
from .parsing import media_type_of
from .serializers.cloudevent import CloudEvent

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
_PREFIX: Final = "HTTP_CE_"
# An intermediary may add headers of its own; one of these says that somebody means it.
_MARKS: Final = frozenset({f"{_PREFIX}{name}" for name in ("SPECVERSION", "ID", "SOURCE", "TYPE")})
# What `emit` calls its arguments, and the API in between, in the words of CloudEvents.
NAMES: Final[Names] = {
    "tenant": "tenantid",
    "tenant_id": "tenantid",
    "identity": "identityid",
    "owner kind": "ownerkind",
    "owner id": "ownerid",
    "occurred_at": "time",
    "expires_at": "expirytime",
    "event_id": "id",
}


def is_batch(headers: Mapping[str, Any]) -> bool:
    """Whether the request is a batch of CloudEvents."""
    return media_type_of(headers) == BATCH


def is_binary(headers: Mapping[str, Any]) -> bool:
    """Whether the request is a CloudEvent whose attributes are headers (section 3.1)."""
    return media_type_of(headers) not in (STRUCTURED, BATCH) and not _MARKS.isdisjoint(headers)


def is_event(headers: Mapping[str, Any]) -> bool:
    """Whether the request is one CloudEvent, in either form."""
    return media_type_of(headers) == STRUCTURED or is_binary(headers)


def from_headers(headers: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Return a CloudEvent of the binary form as one of the structured form.

    Raises ValidationError for a header that is no UTF-8.
    """
    names = [name for name in headers if name.startswith(_PREFIX)]
    event = {name[len(_PREFIX) :].lower(): _decoded(name, headers[name]) for name in names}
    if headers.get("CONTENT_TYPE"):
        event["datacontenttype"] = headers["CONTENT_TYPE"]
    if headers.get("CONTENT_LENGTH") not in (None, "", "0"):
        event["data"] = data
    return event


def values_of(events: list[Any], *, at_places: bool) -> list[dict[str, Any]]:
    """Return what to record for CloudEvents as parsed. Raises ValidationError naming every fault.

    Args:
        at_places: paths begin with the place in the list.
    """
    read = [CloudEvent(data=event) for event in events]
    faults = {str(place): each.errors for place, each in enumerate(read) if not each.is_valid()}
    if faults:
        raise ValidationError(faults if at_places else faults["0"])
    return [_values(each.validated_data) for each in read]


def _values(event: Mapping[str, Any]) -> dict[str, Any]:
    owner = {"kind": event["ownerkind"], "id": event["ownerid"]} if "ownerid" in event else None
    return {
        "type": event["type"],
        "data": event.get("data", {}),
        "tenant_id": event.get("tenantid"),
        "identity_id": event.get("identityid"),
        "owner": owner,
        "subject": event.get("subject"),
        "event_id": _event_id(event["source"], event["id"]),
        "occurred_at": event.get("time"),
        "expires_at": event.get("expirytime"),
        "environment": event.get("environment"),
    }


def _event_id(source: str, id: str) -> str:
    """Return an id of ours for what identifies a CloudEvent: its source and id together."""
    text = "".join(f"{len(part)}:{part}," for part in (source, id))
    return hashlib.sha256(text.encode()).hexdigest()


def _decoded(name: str, value: str) -> str:
    """Return the value of a header (section 3.1.3.2); a server hands its bytes over as Latin-1."""
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    try:
        return unquote_to_bytes(value.encode("latin-1")).decode()
    except UnicodeError:
        shown = name[len(_PREFIX) :].lower()
        raise ValidationError({shown: ["Must be percent-encoded UTF-8."]}) from None
