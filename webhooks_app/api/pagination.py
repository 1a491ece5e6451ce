"""Pages by cursor: the rows after the last key seen, newest first; none skipped, none doubled, no count."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import Model, QuerySet
from rest_framework.exceptions import ValidationError

from ..actions.actor import Actor

Row = TypeVar("Row", bound=Model)

DEFAULT_LIMIT: Final = 25
MAX_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class Listing:
    """What a cursor belongs to: one caller reading one path through the same filters."""

    actor: Actor
    path: str
    filters: Mapping[str, str]

    def mark(self) -> str:
        """Return a short fingerprint."""
        who = (self.actor.kind, self.actor.id, self.actor.scope, self.actor.scope_id)
        text = json.dumps([who, self.path, sorted(self.filters.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def page_of(
    rows: QuerySet[Row], listing: Listing, *, limit: int, cursor: str | None, key: str = "pk"
) -> tuple[list[Row], str | None]:
    """Return one page and the cursor of the next, None after the last; one query.

    Args:
        rows: what the caller may see, filtered.
        key: a column unique among `rows`, by which they are ordered, the highest first.

    Raises:
        ValidationError: naming `cursor`, when it is not one that this listing gave out.
    """
    if cursor is not None:
        rows = rows.filter(**{f"{key}__lt": _read(cursor, listing)})
    found = list(rows.order_by(f"-{key}")[: limit + 1])
    more = len(found) > limit
    page = found[:limit]
    return page, _write(getattr(page[-1], key), listing) if more else None


def _signer() -> Signer:
    return Signer(salt="webhooks_app.api.cursor", sep=".")


def _write(key: Any, listing: Listing) -> str:
    return _signer().sign_object([key if isinstance(key, int) else str(key), listing.mark()])


def _read(cursor: str, listing: Listing) -> Any:
    try:
        key, mark = _signer().unsign_object(cursor)
    except BadSignature:
        key = mark = None
    if mark != listing.mark():
        message = "Must be a next_cursor of this list, with the same filters and the same key."
        raise ValidationError({"cursor": [message]})
    return key
