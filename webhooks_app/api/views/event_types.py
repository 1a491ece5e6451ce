"""/v1/event-types"""

from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_READ
from ...event_types import event_types
from ..operations import Operation
from ..serializers.event_type import EventTypes
from .base import ApiView


class Catalogue(ApiView):
    """What there is to subscribe to."""

    operations = {
        "GET": Operation(
            id="listEventTypes",
            tag="Events",
            summary="List the event types",
            permission=WEBHOOKS_READ,
            answer=EventTypes,
        )
    }

    def get(self, request: Request) -> Response:
        """List."""
        return self.answer({"data": event_types()})
