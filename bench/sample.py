"""The event that every measurement sends: an envelope of about 800 bytes."""

from datetime import UTC, datetime
from typing import Any

from webhooks_app.core import envelope

TYPE = "order.shipped"
_LINES = [{"sku": f"article-{place}", "quantity": place, "price": "1.10"} for place in range(8)]


def data(**extra: Any) -> dict[str, Any]:
    """Return the data of one event; `extra` comes first."""
    return {**extra, "order": {"id": 12345, "total": "12.50", "lines": _LINES}, "note": "n" * 200}


def body(event_id: str) -> bytes:
    """Return the envelope that the product makes of `data()`."""
    return envelope.build(
        id=event_id,
        type=TYPE,
        api_version="2026-10-01",
        occurred_at=datetime(2026, 10, 1, tzinfo=UTC),
        tenant_id="tenant",
        identity_id=None,
        sequence=None,
        data=data(),
        max_bytes=100_000,
    )
