"""Which way the list of events goes through the table, so that few rows are read whatever the filters."""

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import QuerySet

from .. import conf
from ..actions.actor import Actor
from ..models import Event

BY_TIME: Final = ("occurred_at", "pk")
BY_KEY: Final = ("pk",)


def event_walk(actor: Actor, given: Mapping[str, Any]) -> tuple[QuerySet[Event], tuple[str, ...]]:
    """Return the rows that an index gives in an order, and that order.

    Indexes have the events of a tenant and those of a partner's tenants by the time they occurred; all events
    have an order by key only.
    """
    rows = Event.objects.using(conf.current().DATABASE)
    tenant_id = actor.scope_id if actor.scope == "tenant" else given.get("tenant_id")
    # Where a page stops is told in its cursor: nobody walks along rows that are not the caller's to see.
    if actor.scope == "partner":
        rows = rows.filter(partner_id=actor.scope_id)
    elif tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    else:
        # A key, which is all that a cursor holds then, is a number and tells no time.
        return rows, BY_KEY
    if actor.environment is not None:
        # Test events have indexes of their own; among the live ones they are few.
        rows = rows.filter(environment=actor.environment)
    for name, column in (("since", "occurred_at__gte"), ("until", "occurred_at__lt")):
        if name in given:
            rows = rows.filter(**{column: given[name]})
    return rows, BY_TIME
