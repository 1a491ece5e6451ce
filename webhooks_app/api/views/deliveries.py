"""/v1/deliveries, and /v1/webhooks/{id}/deliveries: what became of events."""

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_READ
from ...actions.scope import get_delivery, get_endpoint, visible_endpoints
from ...models import Delivery
from ..delivery_pages import KEYS, KEYS_AT_ONE, at_many, at_one, of_type, status_of
from ..operations import Operation
from ..serializers import delivery as shapes
from .base import ApiView
from .lists import ListView

TAG = "Deliveries"


class DeliveryList(ListView[Delivery]):
    """Pages of deliveries."""

    exact = {"state": "state", "error": "last_error"}

    def condition(self) -> Q:
        """Return the filters of the query as one condition."""
        condition = super().condition() & status_of(self.given)
        return condition & of_type(self.query["event_type"]) if "event_type" in self.query else condition


class Deliveries(DeliveryList):
    """The jobs of all of the caller's webhooks."""

    operations = {
        "GET": Operation(
            id="listDeliveries",
            tag=TAG,
            summary="List deliveries, the newest event first",
            permission=WEBHOOKS_READ,
            staff=("view_delivery",),
            query=shapes.AllDeliveriesQuery,
            answer=shapes.DeliveryPage,
            errors=("cursor_expired",),
        )
    }

    def get(self, request: Request) -> Response:
        """List."""
        chosen = {"webhook_id": "public_id", "tenant_id": "tenant_id"}
        narrowed = {column: self.query[name] for name, column in chosen.items() if name in self.query}
        endpoints = visible_endpoints(self.actor).filter(**narrowed)
        rows, floor = at_many(endpoints, self.given, self.query["limit"])
        return self.page(rows.select_related("endpoint").prefetch_related("event"), keys=KEYS, floor=floor)


class OneDelivery(ApiView):
    """One job."""

    operations = {
        "GET": Operation(
            id="getDelivery",
            tag=TAG,
            summary="Read a delivery",
            permission=WEBHOOKS_READ,
            staff=("view_delivery",),
            answer=shapes.Delivery,
            errors=("delivery_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        return self.answer(get_delivery(self.actor, id))


class WebhookDeliveries(DeliveryList):
    """The jobs of a webhook."""

    operations = {
        "GET": Operation(
            id="listWebhookDeliveries",
            tag=TAG,
            summary="List a webhook's deliveries, the newest event first",
            permission=WEBHOOKS_READ,
            staff=("view_delivery",),
            query=shapes.DeliveryQuery,
            answer=shapes.DeliveryPage,
            errors=("webhook_not_found", "cursor_expired"),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """List."""
        endpoint = get_endpoint(self.actor, id)
        rows, floor = at_one(endpoint.pk, self.given)
        return self.page(
            rows.prefetch_related("event"), keys=KEYS_AT_ONE, floor=floor, webhook_id=endpoint.public_id
        )
