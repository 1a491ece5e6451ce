"""Cursors: where a page ended, signed, of one list read by one caller, good for a day."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.signing import BadSignature, Signer
from rest_framework.exceptions import ValidationError

from ..actions.actor import Actor
from .callers import caller_mark
from .problems import CursorExpired

GOOD_FOR: Final = timedelta(hours=24)
MAX_LENGTH: Final = 500


@dataclass(frozen=True, slots=True)
class Listing:
    """What a cursor belongs to: one caller reading one path through the same filters."""

    actor: Actor
    path: str
    filters: Mapping[str, str]

    def mark(self) -> str:
        """Return a short fingerprint."""
        text = json.dumps([caller_mark(self.actor), self.path, sorted(self.filters.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def write_cursor(key: Sequence[Any], listing: Listing, now: datetime) -> str:
    """Return the cursor after the row with this key; `now` is when it begins to age."""
    return _signer().sign_object([[_plain(part) for part in key], listing.mark(), int(now.timestamp())])


def read_cursor(cursor: str, listing: Listing, now: datetime) -> list[Any]:
    """Return the key of the last row seen, its times as text.

    Raises:
        ValidationError: naming `cursor`, when it is not one that this listing gave out.
        CursorExpired: it is older than 24 hours.
    """
    try:
        key, mark, issued = _signer().unsign_object(cursor)
    except BadSignature:
        key, mark, issued = [], None, 0
    if mark != listing.mark():
        message = "Must be a next_cursor of this list, with the same filters and the same key."
        raise ValidationError({"cursor": [message]})
    if now.timestamp() - issued > GOOD_FOR.total_seconds():
        raise CursorExpired
    return list(key)


def _signer() -> Signer:
    return Signer(salt="webhooks_app.api.cursor.2", sep=".")


def _plain(part: Any) -> int | str:
    if isinstance(part, datetime):
        return part.isoformat()
    return part if isinstance(part, int) else str(part)
