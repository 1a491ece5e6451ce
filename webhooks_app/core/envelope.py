"""The bytes of an event, made once: `{id, type, api_version, occurred_at, …, sequence, data}`."""

from datetime import UTC, datetime
from typing import Final

from .strict_json import MAX_DEPTH, Default, PayloadError, encode

__all__ = ["MAX_DEPTH", "SEQUENCE_DIGITS", "PayloadError", "build", "build_parts", "encode", "timestamp"]

# Every body is measured as if its sequence had the digits of the largest bigint and a sign.
SEQUENCE_DIGITS: Final = 20
_HOLE: Final = b'"sequence":null'


def timestamp(moment: datetime) -> str:
    """Return `moment` as RFC 3339 in UTC with milliseconds (cut, not rounded) and `Z`.

    Raises ValueError when it is naive or its UTC form lies outside the years 1 to 9999.
    """
    if moment.utcoffset() is None:
        raise ValueError("a naive datetime names no moment; give it a time zone")
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment lies outside the years 1 to 9999") from None
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def build(
    *,
    id: str,
    type: str,
    api_version: str,
    occurred_at: datetime,
    tenant_id: str | None,
    identity_id: str | None,
    sequence: int | None,
    data: object,
    max_bytes: int,
    default: Default | None = None,
) -> bytes:
    """Return the envelope of an event as compact UTF-8 JSON. Arguments and errors: see `build_parts`."""
    before, after = build_parts(
        id=id,
        type=type,
        api_version=api_version,
        occurred_at=occurred_at,
        tenant_id=tenant_id,
        identity_id=identity_id,
        data=data,
        max_bytes=max_bytes,
        default=default,
    )
    return b"%b%b%b" % (before, b"null" if sequence is None else b"%d" % sequence, after)


def build_parts(
    *,
    id: str,
    type: str,
    api_version: str,
    occurred_at: datetime,
    tenant_id: str | None,
    identity_id: str | None,
    data: object,
    max_bytes: int,
    default: Default | None = None,
) -> tuple[bytes, bytes]:
    """Return the envelope's bytes before and after its sequence number, so that SQL may put it in.

    `default` turns values `encode` does not know into text, numbers, booleans or None. `max_bytes` limits
    the whole body, its sequence taken as SEQUENCE_DIGITS long. Raises PayloadError with a path such as
    `/data/lines/3/price`; its code is `payload_too_large` for a body above the limit.
    """
    envelope = {
        "id": id,
        "type": type,
        "api_version": api_version,
        "occurred_at": _occurred_at(occurred_at),
        "tenant_id": tenant_id,
        "identity_id": identity_id,
        "sequence": None,
        "data": data,
    }
    body = encode(envelope, default=default, outer=1)
    # The first match is ours: text inside the values before it has its quotes escaped.
    head, _, after = body.partition(_HOLE)
    before = head + b'"sequence":'
    size = len(before) + SEQUENCE_DIGITS + len(after)
    if size > max_bytes:
        message = f"the event has {size} bytes, more than the limit of {max_bytes}"
        raise PayloadError("/data", message, code="payload_too_large")
    return before, after


def _occurred_at(moment: datetime) -> str:
    try:
        return timestamp(moment)
    except ValueError as error:
        raise PayloadError("/occurred_at", str(error)) from None
