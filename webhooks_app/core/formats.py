"""What a request carries: the body in the endpoint's format, and every header around it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from . import headers as names

DEFAULT: Final = "envelope"


@dataclass(frozen=True, slots=True)
class Content:
    """A body and its `Content-Type`; the same bytes on every attempt."""

    body: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """The values a request is marked with; all but `attempt_id`, `attempt`, `timestamp` and `signature`
    are the same on every attempt.

    `attempt_id` is the text form `att_…`, `attempt` counts requests from 1, `timestamp` is seconds since
    1970, `signature` the header value made by `signing.sign`.
    """

    event_id: str
    event_type: str
    endpoint_id: str
    attempt_id: str
    attempt: int
    timestamp: int
    signature: str


def _envelope(body: bytes) -> Content:
    return Content(body, "application/json")


FORMATS: Final[Mapping[str, Callable[[bytes], Content]]] = MappingProxyType({"envelope": _envelope})


def render(name: str, body: bytes) -> Content:
    """Return the content an endpoint of format `name` gets for an event's envelope.

    Raises KeyError for a name that is not in FORMATS.
    """
    return FORMATS[name](body)


def user_agent(version: str) -> str:
    """Return the fixed `User-Agent` of a version of this package."""
    return f"django-webhooks-app/{version}"


def request_headers(
    stamp: Stamp, *, content_type: str, user_agent: str, custom: Iterable[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """Return all headers of one request, custom ones last.

    Raises HeaderError for a custom header that `check_custom_headers` would refuse (an old row, or one
    changed by hand): it must neither break the request nor replace a header of ours.
    """
    own = (
        ("Content-Type", content_type),
        ("User-Agent", user_agent),
        (names.ID, stamp.event_id),
        (names.TIMESTAMP, str(stamp.timestamp)),
        (names.SIGNATURE, stamp.signature),
        (names.DELIVERY_ID, stamp.attempt_id),
        (names.ENDPOINT_ID, stamp.endpoint_id),
        (names.ATTEMPT, str(stamp.attempt)),
        (names.EVENT_TYPE, stamp.event_type),
    )
    added = tuple(custom)
    for index, (name, value) in enumerate(added):
        names.check_header(name, value, path=f"/headers/{index}")
    return own + added
