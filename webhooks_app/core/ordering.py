"""Lanes: the deliveries of one endpoint that leave one after the other."""

import hashlib
from typing import Final

NONE: Final = "none"
FIFO: Final = "fifo"
SUBJECT: Final = "subject"
ORDERINGS: Final = (NONE, FIFO, SUBJECT)

MAX_LANE = 200


def lane_of(
    ordering: str, *, tenant_id: str | None, owner_kind: str | None, owner_id: str | None
) -> str | None:
    """Return the lane of an event at an endpoint with this ``ordering``; ``None`` is unordered.

    ``fifo`` has one lane, ``""``. ``subject`` has one per owner, a text of at most 200 characters that no
    other owner has, whatever characters the ids are made of; an event without owner is unordered there.
    """
    if ordering == FIFO:
        return ""
    if ordering != SUBJECT or owner_id is None:
        return None
    # Lengths before the texts: no two owners are joined to the same lane.
    lane = "".join(
        "-" if part is None else f"{len(part)}:{part}" for part in (tenant_id, owner_kind, owner_id)
    )
    if len(lane) <= MAX_LANE:
        return lane
    return "#" + hashlib.sha256(lane.encode("utf-8", "surrogatepass")).hexdigest()
