"""Reading a request's body: capped, and JSON without its traps (RFC 8259, section 4 and 6)."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO, Final

from rest_framework.exceptions import ParseError, UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from ..core.strict_json import RepeatedMember, members
from .problems import LengthRequired, PayloadTooLarge, shown

MEDIA_TYPE: Final = "application/json"


class StrictJSONParser(BaseParser):
    """JSON in UTF-8 without NaN, Infinity, numbers beyond a double, or two members of one name."""

    media_type = MEDIA_TYPE

    def parse(
        self, stream: BinaryIO, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the value. Raises ParseError, and PayloadTooLarge above the view's limit."""
        limit = (parser_context or {})["view"].body_limit()
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise PayloadTooLarge(limit)
        return loads(raw)


def check_body(request: Request, limit: int, media_types: Collection[str]) -> None:
    """Refuse, before anything is read, a body that is too long, of unknown length, or of another type.

    Raises:
        LengthRequired, PayloadTooLarge, UnsupportedMediaType
    """
    headers = request.META
    if headers.get("HTTP_TRANSFER_ENCODING"):
        raise LengthRequired
    length = _length(headers.get("CONTENT_LENGTH"))
    if length > limit:
        raise PayloadTooLarge(limit)
    if length and not _is_plain(headers, media_types):
        raise UnsupportedMediaType(headers.get("CONTENT_TYPE", ""))


def media_type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of a body, in lower case, without parameters."""
    return headers.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()


def loads(raw: bytes) -> Any:
    """Return the value of JSON bytes; integers stay exact. Raises ParseError saying what is wrong."""
    try:
        return json.loads(
            raw.decode(),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=members,
        )
    except RepeatedMember as error:
        raise ParseError(f"the member {shown(error.name)} is given twice in one object") from None
    except UnicodeDecodeError:
        raise ParseError("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ParseError("the body is nested too deeply") from None
    except ValueError:
        raise ParseError("an integer has too many digits") from None


def _length(text: str | None) -> int:
    """Return the Content-Length; the server has checked its form, and cut digits still say "too long"."""
    return int(text[:18]) if text and text.isascii() and text.isdigit() else 0


def _is_plain(headers: Mapping[str, str], media_types: Collection[str]) -> bool:
    coding = headers.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    return media_type_of(headers) in media_types and coding in ("", "identity")


def _no_constant(name: str) -> Any:
    raise ParseError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ParseError("a number is too large")
    return value
