"""What a customer's programmer does once: register an address over the REST API and keep the secret."""

import json
import urllib.request
from typing import Any

from project.demo.customers import Consumer

PATIENCE = [1, 2]
SECONDS = 10


def address(consumer: Consumer, port: int) -> str:
    """Return where a consumer wants its messages."""
    return f"https://{consumer.host}:{port}/orders"


def register(api: str, key: str, consumer: Consumer, port: int) -> dict[str, Any]:
    """Register a consumer; return the API's answer, which holds the secret for the first and last time.

    Raises:
        urllib.error.HTTPError: the API refused.
    """
    wanted = {
        "url": address(consumer, port),
        "events": ["order.*"],
        "description": f"{consumer.name} {consumer.habit}",
        "policy_overrides": {"waits": PATIENCE},
    }
    if consumer.tenant:
        wanted["tenant_id"] = consumer.tenant
    request = urllib.request.Request(
        f"{api}/v1/webhooks",
        data=json.dumps(wanted).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer
