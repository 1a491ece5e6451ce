"""/v1/webhooks and /v1/webhooks/{id}"""

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_MANAGE, WEBHOOKS_READ
from ...actions.delete_endpoint import delete_endpoint
from ...actions.register_endpoint import register_endpoint
from ...actions.scope import get_endpoint, visible_endpoints
from ...actions.update_endpoint import update_endpoint
from ...models import Endpoint
from ..etags import etag_of, if_match, is_unchanged
from ..operations import Operation
from ..serializers import webhook as shapes
from .base import ApiView
from .lists import ListView

_TAG = "Webhooks"


class Webhooks(ListView[Endpoint]):
    """The caller's webhooks."""

    operations = {
        "GET": Operation(
            id="listWebhooks",
            tag=_TAG,
            summary="List webhooks, newest first",
            permission=WEBHOOKS_READ,
            query=shapes.WebhookQuery,
            answer=shapes.WebhookPage,
            errors=("cursor_expired",),
        ),
        "POST": Operation(
            id="createWebhook",
            costly=True,
            tag=_TAG,
            summary="Create a webhook",
            description="The secret is shown in this answer only. Events recorded from now on arrive, those "
            "of the past too with `from: earliest`.",
            permission=WEBHOOKS_MANAGE,
            staff=("add_endpoint",),
            body=shapes.WebhookCreate,
            answer=shapes.WebhookCreated,
            status=201,
            errors=("tenant_not_found", "partner_not_found", "webhook_limit_reached"),
            etag=True,
            shown_once=frozenset({"secret"}),
        ),
    }
    exact = {"tenant_id": "tenant_id"}

    def get(self, request: Request) -> Response:
        """List."""
        return self.page(visible_endpoints(self.actor).select_related("state"))

    def post(self, request: Request) -> Response:
        """Create."""
        given = self.read()
        earliest = given.pop("from", None) == shapes.EARLIEST
        made = register_endpoint(self.actor, **given, earliest=earliest)
        response = self.answer(made.endpoint, secret=made.secret, same_url=made.same_url)
        response["ETag"] = etag_of(made.endpoint)
        response["Location"] = reverse("webhooks_app:webhook", args=[made.endpoint.public_id])
        return response


class OneWebhook(ApiView):
    """One webhook."""

    operations = {
        "GET": Operation(
            id="getWebhook",
            tag=_TAG,
            summary="Read a webhook",
            permission=WEBHOOKS_READ,
            answer=shapes.Webhook,
            etag=True,
            errors=("webhook_not_found",),
        ),
        "PATCH": Operation(
            id="updateWebhook",
            tag=_TAG,
            summary="Change, enable or disable a webhook",
            permission=WEBHOOKS_MANAGE,
            body=shapes.WebhookUpdate,
            answer=shapes.Webhook,
            etag=True,
            errors=("webhook_not_found", "deliveries_pending", "precondition_failed"),
        ),
        "DELETE": Operation(
            id="deleteWebhook",
            tag=_TAG,
            summary="Delete a webhook",
            description="Its open deliveries end and its secrets are destroyed.",
            permission=WEBHOOKS_MANAGE,
            staff=("delete_endpoint",),
            status=204,
            etag=True,
            errors=("webhook_not_found", "precondition_failed"),
        ),
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        endpoint = get_endpoint(self.actor, id)
        if is_unchanged(request._request, etag_of(endpoint)):
            return Response(status=304, headers={"ETag": etag_of(endpoint)})
        return self._shown(endpoint)

    def patch(self, request: Request, id: str) -> Response:
        """Change what is given."""
        endpoint = get_endpoint(self.actor, id)
        update_endpoint(self.actor, endpoint, self.read(partial=True), check=if_match(request._request))
        return self._shown(get_endpoint(self.actor, id))

    def delete(self, request: Request, id: str) -> Response:
        """Delete."""
        delete_endpoint(self.actor, get_endpoint(self.actor, id), check=if_match(request._request))
        return self.answer(None)

    def _shown(self, endpoint: Endpoint) -> Response:
        response = self.answer(endpoint)
        response["ETag"] = etag_of(endpoint)
        return response
