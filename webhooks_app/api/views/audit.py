"""/v1/audit"""

from rest_framework.request import Request
from rest_framework.response import Response

from ...actions.actor import WEBHOOKS_READ
from ...actions.scope import visible_audit
from ...models import AuditEntry
from ..operations import Operation
from ..pagination import look_at_most
from ..serializers.audit import AuditPage, AuditQuery
from .lists import ListView


class Audit(ListView[AuditEntry]):
    """Who did what to whom."""

    operations = {
        "GET": Operation(
            id="listAudit",
            tag="Audit",
            summary="List what was done, the latest first",
            permission=WEBHOOKS_READ,
            staff=("view_auditentry",),
            query=AuditQuery,
            answer=AuditPage,
            errors=("cursor_expired",),
        )
    }
    exact = {"action": "action", "target_id": "target_id", "tenant_id": "tenant_id"}

    def get(self, request: Request) -> Response:
        """List."""
        rows = visible_audit(self.actor)
        floor = look_at_most(rows, self.keys) if self.given else None
        return self.page(rows, floor=floor, operator=self.actor.is_operator)
