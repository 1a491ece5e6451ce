"""/v1/webhooks/match"""

from rest_framework.request import Request
from rest_framework.response import Response

from ... import conf
from ...actions.actor import WEBHOOKS_READ
from ...actions.match_event import match_event
from ...actions.tenancy import partner_of
from ...core.matching import EventFacts
from ..ingest import environment_for, tenant_for
from ..operations import Operation
from ..serializers.match import Matches, MatchRequest
from .base import ApiView


class MatchView(ApiView):
    """Who would get it."""

    operations = {
        "POST": Operation(
            id="matchWebhooks",
            tag="Webhooks",
            summary="Tell which webhooks would get an event",
            description="Nothing is recorded or sent. At most 1,000 webhooks.",
            permission=WEBHOOKS_READ,
            body=MatchRequest,
            answer=Matches,
            errors=("tenant_not_found",),
        )
    }

    def post(self, request: Request) -> Response:
        """Tell."""
        given = self.read()
        tenant_id = tenant_for(self.actor, given.get("tenant_id"))
        event = EventFacts(
            type=given["type"],
            tenant_id=tenant_id,
            partner_id=None if tenant_id is None else partner_of(conf.current().DATABASE, tenant_id),
            identity_id=given.get("identity_id"),
            environment=environment_for(self.actor, given.get("environment")),
        )
        return self.answer({"data": match_event(self.actor, event)})
