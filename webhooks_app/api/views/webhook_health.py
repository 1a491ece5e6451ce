"""/v1/webhooks/{id}/status and /health, and /v1/webhooks/health for all."""

from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import WEBHOOKS_READ
from ...actions.scope import get_endpoint, visible_endpoints
from ...models import Endpoint
from ...ops.health import health
from ...ops.status import status
from ...pipeline import clock
from ..operations import Operation
from ..serializers import health as shapes
from ..serializers.webhook import WebhookQuery
from .base import ApiView
from .lists import ListView

_TAG = "Webhooks"


class StatusView(ApiView):
    """One webhook at work."""

    operations = {
        "GET": Operation(
            id="getWebhookStatus",
            tag=_TAG,
            summary="Read where a webhook's deliveries stand",
            permission=WEBHOOKS_READ,
            answer=shapes.WebhookStatus,
            errors=("webhook_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        endpoint, alias = get_endpoint(self.actor, id), conf.current().DATABASE
        return self.answer(status(alias, endpoint, clock.db_now(alias)))


class HealthView(ApiView):
    """One webhook's health."""

    operations = {
        "GET": Operation(
            id="getWebhookHealth",
            tag=_TAG,
            summary="Read how a webhook does",
            permission=WEBHOOKS_READ,
            answer=shapes.WebhookHealth,
            errors=("webhook_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        endpoint, alias = get_endpoint(self.actor, id), conf.current().DATABASE
        return self.answer(health(alias, endpoint, clock.db_now(alias)))


class AllHealthView(ListView[Endpoint]):
    """The health of all of the caller's webhooks."""

    operations = {
        "GET": Operation(
            id="listWebhookHealth",
            tag=_TAG,
            summary="List how webhooks do, the newest webhook first",
            description="Without the figures that one webhook's health has.",
            permission=WEBHOOKS_READ,
            query=WebhookQuery,
            answer=shapes.WebhookHealthPage,
            errors=("cursor_expired",),
        )
    }
    exact = {"tenant_id": "tenant_id"}

    def get(self, request: Request) -> Response:
        """List."""
        now = clock.db_now(conf.current().DATABASE)
        return self.page(visible_endpoints(self.actor).select_related("state"), now=now)
