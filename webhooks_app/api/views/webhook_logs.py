"""/v1/webhooks/{id}/deliveries and /attempts: what became of events at a webhook."""

from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import WEBHOOKS_READ
from ...actions.scope import get_endpoint
from ...models import Attempt, Delivery
from ..operations import Operation
from ..serializers.attempt import AttemptPage, AttemptQuery
from ..serializers.delivery import DeliveryPage, DeliveryQuery
from .lists import ListView

_TAG = "Deliveries"


class Deliveries(ListView[Delivery]):
    """The jobs of a webhook."""

    operations = {
        "GET": Operation(
            id="listWebhookDeliveries",
            tag=_TAG,
            summary="List a webhook's deliveries, the newest event first",
            permission=WEBHOOKS_READ,
            query=DeliveryQuery,
            answer=DeliveryPage,
            errors=("webhook_not_found",),
        )
    }
    exact = {"state": "state", "event_type": "event__type"}
    # One event is delivered once, and this is the order that an index of the table has.
    key = "event_id"

    def get(self, request: Request, id: str) -> Response:
        """List."""
        endpoint = get_endpoint(self.actor, id)
        rows = Delivery.objects.using(conf.current().DATABASE).filter(endpoint=endpoint)
        return self.page(rows.select_related("event"), webhook_id=endpoint.public_id)


class Attempts(ListView[Attempt]):
    """The evidence of a webhook's requests."""

    operations = {
        "GET": Operation(
            id="listWebhookAttempts",
            tag=_TAG,
            summary="List the requests made to a webhook, newest first",
            permission=WEBHOOKS_READ,
            query=AttemptQuery,
            answer=AttemptPage,
            errors=("webhook_not_found",),
        )
    }
    exact = {"status": "status", "event_type": "event_type"}

    def get(self, request: Request, id: str) -> Response:
        """List."""
        endpoint = get_endpoint(self.actor, id)
        rows = Attempt.objects.using(conf.current().DATABASE).filter(endpoint=endpoint)
        return self.page(rows.select_related("delivery"), webhook_id=endpoint.public_id)
