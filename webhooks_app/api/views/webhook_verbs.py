"""/v1/webhooks/{id}/…: what is done to a webhook."""

from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_MANAGE
from ...actions.pause import pause
from ...actions.replay import replay
from ...actions.resume import resume
from ...actions.rotate_secret import rotate_secret
from ...actions.scope import get_endpoint
from ...actions.test_send import test_send
from ..operations import Operation
from ..serializers.attempt import Attempt
from ..serializers.replay import Queued, Replay
from ..serializers.webhook import Nothing, RotateSecret, Webhook, WebhookRotated
from .base import ApiView

_TAG = "Webhooks"


class RotateSecretView(ApiView):
    """A new secret."""

    operations = {
        "POST": Operation(
            id="rotateWebhookSecret",
            costly=True,
            tag=_TAG,
            summary="Replace the secret",
            description="Shown in this answer only. The old secret signs too until the overlap ends.",
            permission=WEBHOOKS_MANAGE,
            body=RotateSecret,
            answer=WebhookRotated,
            errors=("webhook_not_found", "too_many_secrets"),
            shown_once=frozenset({"secret"}),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Rotate."""
        endpoint = get_endpoint(self.actor, id)
        rotated = rotate_secret(self.actor, endpoint, **self.read())
        return self.answer(
            get_endpoint(self.actor, id),
            secret=rotated.secret,
            previous_expires_at=rotated.previous_expires_at,
        )


class TestView(ApiView):
    """One request, now."""

    operations = {
        "POST": Operation(
            id="testWebhook",
            costly=True,
            tag=_TAG,
            summary="Send a test event at once",
            description="Answers with the attempt, whatever came of it. Never retried, moves no counter.",
            permission=WEBHOOKS_MANAGE,
            body=Nothing,
            answer=Attempt,
            errors=("webhook_not_found", "tenant_suspended"),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Send."""
        endpoint = get_endpoint(self.actor, id)
        self.read()
        return self.answer(test_send(self.actor, endpoint), webhook_id=endpoint.public_id)


class ReplayView(ApiView):
    """Events again."""

    operations = {
        "POST": Operation(
            id="replayWebhook",
            costly=True,
            tag=_TAG,
            summary="Queue events again",
            description="By id, or those of a time span; also events the webhook never had.",
            permission=WEBHOOKS_MANAGE,
            body=Replay,
            answer=Queued,
            status=202,
            errors=("webhook_not_found", "webhook_disabled", "breaker_open", "delivery_in_flight"),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Queue."""
        endpoint = get_endpoint(self.actor, id)
        asked = self.read()
        other = asked.pop("to", None)
        to = None if other is None else get_endpoint(self.actor, other)
        return self.answer({"queued": replay(self.actor, endpoint, to=to, **asked)})


class PauseView(ApiView):
    """Hold everything."""

    operations = {
        "POST": Operation(
            id="pauseWebhook",
            tag=_TAG,
            summary="Hold deliveries without losing any",
            permission=WEBHOOKS_MANAGE,
            body=Nothing,
            answer=Webhook,
            errors=("webhook_not_found",),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Pause."""
        endpoint = get_endpoint(self.actor, id)
        self.read()
        pause(self.actor, endpoint)
        return self.answer(get_endpoint(self.actor, id))


class ResumeView(ApiView):
    """Let go."""

    operations = {
        "POST": Operation(
            id="resumeWebhook",
            tag=_TAG,
            summary="Send what was held",
            description="Ends a pause, and closes a breaker that is open or half-open.",
            permission=WEBHOOKS_MANAGE,
            body=Nothing,
            answer=Webhook,
            errors=("webhook_not_found",),
        )
    }

    def post(self, request: Request, id: str) -> Response:
        """Resume."""
        endpoint = get_endpoint(self.actor, id)
        self.read()
        resume(self.actor, endpoint)
        return self.answer(get_endpoint(self.actor, id))
