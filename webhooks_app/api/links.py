"""Links of the OpenAPI document: what one can do with what an operation answers."""

from collections.abc import Mapping
from typing import Any, Final

_WITH_WEBHOOK: Final = (
    "getWebhook",
    "updateWebhook",
    "deleteWebhook",
    "testWebhook",
    "rotateWebhookSecret",
    "replayWebhook",
    "recoverWebhook",
    "pauseWebhook",
    "resumeWebhook",
    "getWebhookStatus",
    "getWebhookHealth",
    "listWebhookDeliveries",
    "listWebhookAttempts",
    "listMissedEvents",
)
_WITH_DELIVERY: Final = ("getDelivery", "resendDelivery", "cancelDelivery")
# Operation -> where its answer has an id -> the operations that take that id.
_LINKS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "createWebhook": {"/id": _WITH_WEBHOOK},
    "createEvent": {"/id": ("getEvent",)},
    "testWebhook": {"/id": ("getAttempt",)},
    "resendDelivery": {"/id": ("getAttempt",)},
    "recoverWebhook": {"/id": ("getJob", "cancelJob")},
    "retryDeliveries": {"/id": ("getJob", "cancelJob")},
    "listWebhooks": {"/data/0/id": _WITH_WEBHOOK[:1]},
    "listEvents": {"/data/0/id": ("getEvent",)},
    "listDeliveries": {"/data/0/id": _WITH_DELIVERY},
    "listJobs": {"/data/0/id": ("getJob",)},
}


def with_links(result: Any, **_: Any) -> Any:
    """Put the links into the answers of the document."""
    for operation in (each for methods in result["paths"].values() for each in methods.values()):
        for pointer, targets in _LINKS.get(operation["operationId"], {}).items():
            success = next(status for status in operation["responses"] if status.startswith("2"))
            operation["responses"][success]["links"] = {
                target: {"operationId": target, "parameters": {"id": f"$response.body#{pointer}"}}
                for target in targets
            }
    return result
