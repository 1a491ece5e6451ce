"""What a disabled endpoint refuses: it is sent nothing, so nothing is queued for it either."""

from ..exceptions import Conflict
from ..models import EndpointState


def check_enabled(state: EndpointState) -> None:
    """Raise Conflict (`webhook_disabled`) for an endpoint that is disabled, whoever disabled it."""
    if not state.enabled:
        raise Conflict(
            "the webhook is disabled", code="webhook_disabled", fix="Enable it, then repeat the request."
        )
