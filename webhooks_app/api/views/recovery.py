"""Recovery: what a webhook lacks, and how it gets it after all."""

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_MANAGE, WEBHOOKS_READ
from ...actions.bulk_retry import bulk_retry
from ...actions.cancel import cancel
from ...actions.missed import missed
from ...actions.recover import recover
from ...actions.resend import resend
from ...actions.scope import get_delivery, get_endpoint
from ..cursors import Listing, read_cursor, write_cursor
from ..operations import Operation
from ..serializers import recovery as shapes
from ..serializers.attempt import Attempt
from ..serializers.delivery import Delivery
from ..serializers.job import Job
from ..serializers.webhook import Nothing
from .base import ApiView

_TAG = "Deliveries"


class RecoverView(ApiView):
    """Everything it lacks."""

    operations = {
        "POST": Operation(
            id="recoverWebhook",
            costly=True,
            tag=_TAG,
            summary="Queue what a webhook lacks since a time",
            description="Dead deliveries, and events it may have and has no delivery of. It goes on "
            "after the answer, as a job, within the webhook's limits and behind its live traffic.",
            permission=WEBHOOKS_MANAGE,
            body=shapes.Recover,
            answer=Job,
            status=202,
            errors=("webhook_not_found", "webhook_disabled"),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Begin."""
        endpoint = get_endpoint(self.actor, id)
        return self.answer(recover(self.actor, endpoint, **self.read()))


class MissedView(ApiView):
    """What it lacks."""

    operations = {
        "GET": Operation(
            id="listMissedEvents",
            tag=_TAG,
            summary="List the events that a webhook lacks, newest first",
            description="A page may have fewer events than asked for, or none, and still a next one.",
            permission=WEBHOOKS_READ,
            query=shapes.MissedQuery,
            answer=shapes.MissedPage,
            errors=("webhook_not_found", "cursor_expired"),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """List."""
        endpoint = get_endpoint(self.actor, id)
        asked = dict(self.query)
        limit, given = asked.pop("limit"), asked.pop("cursor", None)
        listing = Listing(self.actor, self.request.path, {name: str(value) for name, value in asked.items()})
        now = timezone.now()
        cursor = None if given is None else read_cursor(given, listing, now)[0]
        page = missed(self.actor, endpoint, cursor=cursor, limit=limit, **asked)
        following = None if page.cursor is None else write_cursor([page.cursor], listing, now)
        return self.answer({"data": page.rows, "next_cursor": following})


class ResendView(ApiView):
    """One request, now."""

    operations = {
        "POST": Operation(
            id="resendDelivery",
            costly=True,
            tag=_TAG,
            summary="Send a delivery once, at once",
            description="Answers with the attempt, whatever came of it. A success ends the delivery; after a "
            "failure its schedule goes on, or its end stands, as if nothing had been sent.",
            permission=WEBHOOKS_MANAGE,
            staff=("change_endpoint", "view_delivery"),
            body=Nothing,
            answer=Attempt,
            errors=(
                "delivery_not_found",
                "delivery_in_flight",
                "webhook_disabled",
                "tenant_suspended",
                "event_unavailable",
            ),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Send."""
        delivery = get_delivery(self.actor, id)
        self.read()
        attempt = resend(self.actor, delivery)
        return self.answer(attempt, webhook_id=delivery.endpoint.public_id)


class CancelView(ApiView):
    """No more attempts."""

    operations = {
        "POST": Operation(
            id="cancelDelivery",
            tag=_TAG,
            summary="End an open delivery as cancelled",
            permission=WEBHOOKS_MANAGE,
            staff=("change_endpoint", "view_delivery"),
            body=Nothing,
            answer=Delivery,
            errors=("delivery_not_found", "delivery_in_flight", "delivery_ended"),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Cancel."""
        delivery = get_delivery(self.actor, id)
        self.read()
        return self.answer(cancel(self.actor, delivery))


class BulkRetryView(ApiView):
    """Many again."""

    operations = {
        "POST": Operation(
            id="retryDeliveries",
            costly=True,
            tag=_TAG,
            summary="Let the deliveries that filters select begin anew",
            description="At most a million. Goes on after the answer, as a job; what is expired or past its "
            "retention is skipped, and what belongs to disabled webhooks; naming one of these is refused.",
            permission=WEBHOOKS_MANAGE,
            body=shapes.BulkRetry,
            answer=Job,
            status=202,
            errors=("webhook_not_found", "webhook_disabled"),
        )
    }

    def post(self, request: Request) -> Response:
        """Begin."""
        filters = self.read()
        webhook_id = filters.pop("webhook_id", None)
        endpoint = None if webhook_id is None else get_endpoint(self.actor, webhook_id)
        return self.answer(bulk_retry(self.actor, endpoint=endpoint, **filters))
