"""Resend: one attempt of one delivery, at once and beside its schedule."""

from django.db import transaction

from .. import conf
from ..exceptions import ActionError, Conflict, NotFound
from ..models import Attempt, Delivery
from ..pipeline import clock, manual
from . import audit
from .actor import WEBHOOKS_MANAGE, Actor, require
from .eligible import Eligible
from .enabled import check_enabled
from .ending import in_flight
from .payload import is_bare
from .scope import get_delivery, get_endpoint
from .sensitivity import require_for_events
from .tenancy import check_not_suspended


def resend(actor: Actor, delivery: Delivery) -> Attempt:
    """Send the delivery once, now, and return the attempt, whatever came of it.

    A success ends an open delivery as delivered. A failure changes nothing: an open one keeps its place in
    the schedule, for which the attempt does not count, and an ended one the end it had. Neither pauses,
    breakers nor limits hold it. Waits up to the policy's total timeout, so call it outside of a transaction.

    Raises:
        Conflict: `delivery_in_flight` while a request of it runs; `webhook_disabled`; `tenant_suspended`;
            `event_unavailable` when the event is expired, past its retention or erased.
        NotFound: `delivery_not_found`.
        PermissionDenied: without `webhooks:manage`, or what a sensitive event type takes besides.
        ActionError: `unavailable`, when the database that holds its body does not answer.
    """
    require(actor, WEBHOOKS_MANAGE)
    alias = conf.current().DATABASE
    row = get_delivery(actor, delivery.public_id)
    require_for_events(actor, [row.event.type])
    _check(alias, actor, row)
    try:
        made = manual.send_now(alias, row.pk)
    except manual.InFlightError:
        raise in_flight() from None
    except manual.GoneError:
        raise NotFound("there is no such delivery", code="delivery_not_found") from None
    if made.attempt_id is None:
        raise ActionError("a database of the outbox does not answer", code="unavailable")
    attempt = Attempt.objects.using(alias).select_related("delivery").get(pk=made.attempt_id)
    with transaction.atomic(using=alias):
        details = {"delivery": row.public_id, "attempt": attempt.public_id, "status": attempt.status}
        audit.record(actor, "delivery.resent", row.endpoint, details={**details, "error": attempt.error})
    return attempt


def _check(alias: str, actor: Actor, row: Delivery) -> None:
    endpoint = get_endpoint(actor, row.endpoint.public_id)
    check_not_suspended(alias, endpoint)
    check_enabled(endpoint.state)
    event = row.event
    if is_bare(event) or not Eligible(alias, endpoint, clock.db_now(alias)).is_alive(event):
        raise Conflict(
            "the event is expired, past its retention or erased",
            code="event_unavailable",
            fix="Nothing can be sent any more.",
        )
