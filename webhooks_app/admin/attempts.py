"""Attempts: what was sent, and what strangers answered."""

from collections.abc import Sequence
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from .. import conf
from ..core.ids import parse_delivery_id, parse_id
from ..models import Attempt, Delivery, Endpoint
from . import shown
from .base import EvidenceAdmin, by_pk
from .change_list import recent_filter
from .of_endpoint import OfEndpoint, attach_endpoints

MAX_DELIVERIES = 1_000


@admin.register(Attempt)
class AttemptAdmin(OfEndpoint, EvidenceAdmin[Attempt]):
    """One request each."""

    list_display = (
        "public_id",
        "status",
        "answer",
        "event_type",
        "number",
        "trigger",
        "duration",
        "created_at",
        "endpoint_id_shown",
    )
    list_filter = (
        recent_filter("status", Attempt.Status.choices),
        recent_filter("trigger", Attempt.Trigger.choices),
    )
    search_help_text = "Id of an attempt, a delivery, an endpoint or an event."
    shown_fields = (
        "public_id",
        "delivery_link",
        "endpoint_link",
        "event_link",
        "event_type",
        "number",
        "trigger",
        "status",
        "answer",
        "detail",
        "duration",
        "host",
        "target_ip",
        "digest",
        "signature",
        "reply_headers_shown",
        "reply_body_shown",
        "next_attempt_at",
        "created_at",
    )

    def found(self, queryset: QuerySet[Attempt], term: str) -> QuerySet[Attempt]:
        """Return the attempts of what the id names; each look-up has an index."""
        if (value := parse_id("att", term)) is not None:
            return queryset.filter(pk=UUID(int=value))
        if (pk := parse_delivery_id(term)) is not None:
            return queryset.filter(delivery_id=pk)
        if parse_id("whk", term) is not None:
            endpoint = Endpoint.objects.using(conf.current().DATABASE).filter(public_id=term).first()
            return queryset.filter(endpoint=endpoint) if endpoint else queryset.none()
        # Attempts have no index by event; its deliveries have, and attempts by delivery.
        deliveries = Delivery.objects.using(conf.current().DATABASE).filter(event__public_id=term)
        pks = list(deliveries.values_list("pk", flat=True)[:MAX_DELIVERIES])
        return queryset.filter(delivery_id__in=pks)

    def fetch_neighbours(self, rows: Sequence[Attempt]) -> None:
        """Attach the endpoints' public ids."""
        attach_endpoints(rows)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        """Return the rows; lists do without what only a page shows."""
        rows = super().get_queryset(request)
        match = request.resolver_match
        listed = match is not None and str(match.url_name).endswith("_changelist")
        return rows.defer("reply_body", "reply_headers", "signature", "body_sha256") if listed else rows

    @admin.display(description="delivery")
    def delivery_link(self, attempt: Attempt) -> str:
        """Return a link to the delivery."""
        delivery = by_pk(Delivery, [attempt.delivery_id], ["created_at"]).get(attempt.delivery_id)
        return shown.link("delivery", delivery.pk, delivery.public_id) if delivery else shown.NOTHING

    @admin.display(description="event")
    def event_link(self, attempt: Attempt) -> str:
        """Return a link to the event."""
        return shown.search_link("event", attempt.event_id, attempt.event_id)

    @admin.display(description="answer")
    def answer(self, attempt: Attempt) -> str:
        """Return status and error code."""
        parts = [str(attempt.http_status or ""), attempt.error]
        return " ".join(part for part in parts if part) or shown.NOTHING

    @admin.display(description="took")
    def duration(self, attempt: Attempt) -> str:
        """Return the duration with its unit."""
        return f"{attempt.duration_ms} ms"

    @admin.display(description="sent to")
    def host(self, attempt: Attempt) -> str:
        """Return where it went, without the path."""
        return shown.host(attempt.url)

    @admin.display(description="SHA-256 of the body")
    def digest(self, attempt: Attempt) -> str:
        """Return the digest of the bytes that were sent."""
        return bytes(attempt.body_sha256).hex() if attempt.body_sha256 else shown.NOTHING

    @admin.display(description="reply headers")
    def reply_headers_shown(self, attempt: Attempt) -> str:
        """Return the reply's headers as they came."""
        return shown.pre("\n".join(f"{name}: {value}" for name, value in attempt.reply_headers))

    @admin.display(description="first bytes of the reply")
    def reply_body_shown(self, attempt: Attempt) -> str:
        """Return the reply's first bytes as text."""
        return shown.pre(shown.text_of(attempt.reply_body))
