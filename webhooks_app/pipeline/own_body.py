"""The envelope of what the sender itself says: of operational events, tests and pings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..conf import current
from ..core import envelope


def own_body(
    event_id: str, type: str, data: Mapping[str, Any], *, tenant_id: str | None, at: datetime
) -> bytes:
    """Return the envelope of an event that has no owner, and so no number."""
    settings = current()
    return envelope.build(
        id=event_id,
        type=type,
        api_version=settings.API_VERSION,
        occurred_at=at,
        tenant_id=tenant_id,
        identity_id=None,
        sequence=None,
        data=data,
        max_bytes=settings.MAX_BODY_BYTES,
    )
