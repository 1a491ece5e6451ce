"""Custom headers of an endpoint as stored: `{"name", "value"}`, or `{"name", "sealed", "secret": true}`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..core.headers import CustomHeader, HeaderError, check_custom_headers
from ..destinations.sealing import seal_header
from .faults import Fault

Stored = Mapping[str, Any]

# Stands for the value of a secret header that a request keeps without knowing it.
_KEPT = "kept"


def headers(endpoint_public_id: str, given: object, stored: Iterable[Stored] = ()) -> list[dict[str, Any]]:
    """Check a request's headers and return what to store.

    A secret header without its value keeps the stored one of the same name. It cannot become readable that
    way: whoever takes the mark `secret` off must bring the value.

    Raises Fault with a path such as `headers/0/value`; the message never holds a value.
    """
    kept = {entry["name"].lower(): entry for entry in stored if entry.get("secret")}
    try:
        checked = check_custom_headers(_completed(given, kept), path="headers")
    except HeaderError as error:
        raise Fault(error.path, error.message) from None
    items: Sequence[Stored] = given  # type: ignore[assignment]
    return [
        _stored(endpoint_public_id, item, header, kept) for item, header in zip(items, checked, strict=True)
    ]


def names(stored: Iterable[Stored]) -> list[str]:
    """Return the names of stored headers, which is what an audit may show."""
    return [entry["name"] for entry in stored]


def _completed(given: object, kept: Mapping[str, Stored]) -> object:
    """Give the headers that keep their value something to be checked with."""
    if not isinstance(given, list | tuple):
        return given
    return [{**item, "value": _KEPT} if _keeps(item, kept) else item for item in given]


def _keeps(item: object, kept: Mapping[str, Stored]) -> bool:
    return (
        isinstance(item, Mapping)
        and item.get("secret") is True
        and "value" not in item
        and str(item.get("name")).lower() in kept
    )


def _stored(
    endpoint_public_id: str, item: Stored, header: CustomHeader, kept: Mapping[str, Stored]
) -> dict[str, Any]:
    if not header.secret:
        return {"name": header.name, "value": header.value}
    if "value" not in item:
        return {"name": header.name, "secret": True, "sealed": kept[header.name.lower()]["sealed"]}
    return {
        "name": header.name,
        "secret": True,
        "sealed": seal_header(endpoint_public_id, header.name, header.value),
    }
