"""/v1/attempts/{id}, and /v1/webhooks/{id}/attempts: the evidence of requests."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import WEBHOOKS_READ
from ...actions.scope import get_attempt, get_endpoint
from ...actions.sensitivity import withheld
from ...models import Attempt
from ..operations import Operation
from ..pagination import look_at_most
from ..serializers import attempt as shapes
from .base import ApiView
from .deliveries import TAG
from .lists import ListView

# An attempt's id begins with the time of its lease by the worker's clock; its row is made after the reply.
_APART: Final = timedelta(hours=1)
_MAX_MILLIS: Final = (1 << 48) - 1


class OneAttempt(ApiView):
    """The evidence of one request."""

    operations = {
        "GET": Operation(
            id="getAttempt",
            tag=TAG,
            summary="Read an attempt",
            permission=WEBHOOKS_READ,
            staff=("view_attempt", "view_endpoint"),
            answer=shapes.Attempt,
            errors=("attempt_not_found",),
        )
    }

    def get(self, request: Request, id: str) -> Response:
        """Read."""
        return self.answer(get_attempt(self.actor, id), withheld=withheld(self.actor))


class WebhookAttempts(ListView[Attempt]):
    """The evidence of a webhook's requests."""

    operations = {
        "GET": Operation(
            id="listWebhookAttempts",
            tag=TAG,
            summary="List the requests made to a webhook, newest first",
            permission=WEBHOOKS_READ,
            staff=("view_attempt", "view_endpoint"),
            query=shapes.AttemptQuery,
            answer=shapes.AttemptPage,
            errors=("webhook_not_found", "cursor_expired"),
        )
    }
    exact = {name: name for name in ("status", "error", "http_status", "trigger", "event_type")}

    def get(self, request: Request, id: str) -> Response:
        """List."""
        endpoint = get_endpoint(self.actor, id)
        made = Attempt.objects.using(conf.current().DATABASE).filter(
            made_within(self.given), endpoint=endpoint
        )
        floor = look_at_most(made, self.keys) if self.given else None
        rows = made.select_related("delivery")
        return self.page(rows, floor=floor, webhook_id=endpoint.public_id, withheld=withheld(self.actor))


def made_within(given: Mapping[str, Any]) -> Q:
    """Return the condition on the ids of attempts made in the span that the query names, or just outside."""
    condition = Q()
    if "since" in given:
        condition &= Q(pk__gte=_first_id(given["since"], -_APART))
    if "until" in given:
        condition &= Q(pk__lt=_first_id(given["until"], _APART))
    return condition


def _first_id(moment: datetime, shift: timedelta) -> UUID:
    millis = int((moment.timestamp() + shift.total_seconds()) * 1000)
    return UUID(int=min(max(millis, 0), _MAX_MILLIS) << 80)
