"""Sensitive event types: whoever lets them be sent somewhere needs a permission of theirs."""

from collections.abc import Collection

from .. import conf
from ..core.states import PENDING
from ..event_types import event_types, permissions_for
from ..exceptions import PermissionDenied
from ..models import Delivery, Endpoint
from .actor import Actor


def require_for_events(actor: Actor, patterns: Collection[str]) -> None:
    """Raise PermissionDenied unless the actor has what a list of event patterns takes; the operator has it.

    Asked on registering an endpoint, on changing its events or its URL, on queueing past events for it, on
    sending one of them again, and on reading what one says.
    """
    missing = sorted(permissions_for(patterns) - actor.permissions)
    if missing and not actor.is_operator:
        raise PermissionDenied(
            f"events of these types need {', '.join(missing)}",
            required=missing,
            fix=f"Use a key that has {', '.join(missing)}, or leave these event types out.",
        )


def withheld_waiting(actor: Actor, endpoint: Endpoint) -> set[str]:
    """Return the types of an endpoint's open deliveries whose permission the actor lacks.

    They may have left its events since. It may look at many deliveries, so call it outside of locks.
    """
    names = withheld(actor)
    if not names:
        return set()
    waiting = Delivery.objects.using(conf.current().DATABASE).filter(endpoint=endpoint.pk, state=PENDING)
    types = waiting.filter(event__type__in=names).order_by().values_list("event__type", flat=True)
    return set(types.distinct())


def withheld(actor: Actor) -> list[str]:
    """Return the sensitive event types whose permission the actor lacks; none for the operator."""
    if actor.is_operator:
        return []
    return [
        each.name for each in event_types() if each.permission and each.permission not in actor.permissions
    ]
