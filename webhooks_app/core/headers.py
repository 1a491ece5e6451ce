"""Header names on the wire, and the rules for the custom headers of an endpoint (RFC 9110, section 5)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
DELIVERY_ID: Final = "webhook-delivery-id"
ENDPOINT_ID: Final = "webhook-endpoint-id"
ATTEMPT: Final = "webhook-attempt"
EVENT_TYPE: Final = "webhook-event-type"

MAX_HEADERS: Final = 20
MAX_NAME: Final = 64
MAX_VALUE: Final = 4096

# What the transport, the body's format and the signature say; a custom header must not say it differently.
_RESERVED: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)
_RESERVED_PREFIXES: Final = ("ce-", "content-", "proxy-", "webhook-")
NAME: Final = re.compile(rf"[!#$%&'*+.^_`|~0-9A-Za-z-]{{1,{MAX_NAME}}}")
VALUE: Final = re.compile(rf"[!-~](?:[ -~]{{0,{MAX_VALUE - 2}}}[!-~])?")
_FIELDS: Final = frozenset({"name", "value", "secret"})


class HeaderError(ValueError):
    """A custom header that cannot be sent. `path` is its JSON Pointer; `message` never holds the value."""

    code = "invalid_header"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


@dataclass(frozen=True, slots=True)
class CustomHeader:
    """One checked custom header; `secret` ones are sealed at rest and never shown again."""

    name: str
    value: str = field(repr=False)
    secret: bool = False


def check_custom_headers(headers: object, *, path: str = "/headers") -> tuple[CustomHeader, ...]:
    """Return the headers of a list of `{"name", "value", "secret"?}`, as a request gives it.

    Names are RFC 9110 tokens of at most 64 characters, neither reserved nor given twice; values are 1 to
    4096 characters of visible ASCII with single or repeated spaces inside; at most 20 headers. Raises
    HeaderError with a path below `path`, such as `/headers/2/name`.
    """
    if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
        raise HeaderError(path, "must be a list")
    if len(headers) > MAX_HEADERS:
        raise HeaderError(path, f"must not have more than {MAX_HEADERS} headers")
    checked = tuple(_header(item, f"{path}/{index}") for index, item in enumerate(headers))
    _check_unique([header.name.lower() for header in checked], path)
    return checked


def check_header(name: object, value: object, *, path: str) -> None:
    """Raise HeaderError unless a custom header of this name and value may be sent."""
    fault = _name_fault(name)
    if fault:
        raise HeaderError(f"{path}/name", fault)
    if not isinstance(value, str):
        raise HeaderError(f"{path}/value", "must be text")
    if not VALUE.fullmatch(value):
        raise HeaderError(f"{path}/value", f"must be 1 to {MAX_VALUE} visible ASCII characters")


def _header(item: object, path: str) -> CustomHeader:
    if not isinstance(item, Mapping) or not {"name"} <= item.keys() <= _FIELDS:
        raise HeaderError(path, 'must be an object {"name", "value", "secret"}')
    if "value" not in item:
        raise HeaderError(f"{path}/value", "is required: no secret value is stored for this name")
    check_header(item["name"], item["value"], path=path)
    secret = item.get("secret", False)
    if not isinstance(secret, bool):
        raise HeaderError(f"{path}/secret", "must be true or false")
    return CustomHeader(item["name"], item["value"], secret)


def _name_fault(name: object) -> str | None:
    if not isinstance(name, str):
        return "must be text"
    if not NAME.fullmatch(name):
        return f"must be 1 to {MAX_NAME} characters of letters, digits and !#$%&'*+-.^_`|~"
    lower = name.lower()
    reserved = lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES)
    return f"{name} is set by the sender" if reserved else None


def _check_unique(names: Sequence[str], path: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise HeaderError(f"{path}/{index}/name", "is given twice")
