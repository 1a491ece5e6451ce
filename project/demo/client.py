"""What a customer's programmer does over the REST API: register an address once, ask for what was missed."""

import json
import urllib.request
from dataclasses import dataclass
from typing import Any

from project.demo.customers import Consumer

SECONDS = 10


@dataclass(frozen=True, slots=True)
class Client:
    """Speaks to the API at `site` with an API key."""

    site: str
    key: str

    def register(self, consumer: Consumer, port: int) -> dict[str, Any]:
        """Register a consumer; return the API's answer, which holds the secret for the first and last time.

        Raises:
            urllib.error.HTTPError: the API refused.
        """
        wanted = {
            "url": address(consumer, port),
            "events": ["order.*"],
            "description": f"{consumer.name} {consumer.habit}",
            "policy_overrides": {"waits": list(consumer.waits), **consumer.policy},
            "ordering": consumer.ordering,
        }
        if consumer.tenant:
            wanted["tenant_id"] = consumer.tenant
        return self._post("webhooks", wanted)

    def recover(self, webhook_id: str, since: str) -> dict[str, Any]:
        """Ask for everything that a webhook lacks since a moment; return the job that the API began.

        Raises:
            urllib.error.HTTPError: the API refused.
        """
        return self._post(f"webhooks/{webhook_id}/recover", {"since": since})

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.site}/v1/{path}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            answer: dict[str, Any] = json.load(reply)
        return answer


def address(consumer: Consumer, port: int) -> str:
    """Return where a consumer wants its messages."""
    return f"https://{consumer.host}:{port}/orders"
