"""What an endpoint lacks: events whose delivery to it died, and events it may have and never had.

That it may have them is judged by what it is today; when it was created is of no account.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, FilteredRelation, Q, QuerySet

from ..core.states import DEAD_LETTERED, EXHAUSTED, EXPIRED, FAILED_PERMANENT, WINDOW_EXCEEDED
from ..models import Endpoint, Event
from .eligible import Eligible

# What recovery takes up again. Of the expired ones only those whose time is not over after all; what somebody
# cancelled stays cancelled.
RECOVERED = (EXHAUSTED, FAILED_PERMANENT, DEAD_LETTERED, WINDOW_EXCEEDED, EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Events that occurred from `since` on and before `until`; None = whenever."""

    since: datetime
    until: datetime | None = None

    @classmethod
    def within(cls, eligible: Eligible, since: datetime | None, until: datetime | None) -> "Window":
        """Return the part of a window that events of the endpoint may lie in; None = as far as it goes."""
        return cls(since=max(since or eligible.since, eligible.since), until=until)


def lacking(
    rows: QuerySet[Event],
    endpoint: Endpoint,
    window: Window,
    *,
    states: Collection[str],
    between: tuple[int, int] | None = None,
) -> QuerySet[Event]:
    """Return those of `rows` that the endpoint lacks, with `delivery_key` (None: it never had a delivery).

    Args:
        states: in which a delivery counts as dead; one that was delivered before never does.
        between: keys of events, the first excluded: bounds the statement's work.
    """
    # One that is not registered yet has no key, and no deliveries.
    here = Q(deliveries__endpoint=endpoint.pk or 0)
    if between is not None:
        # Said of both tables: a database carries an equality over an outer join, but not a range.
        here &= Q(deliveries__event_id__gt=between[0], deliveries__event_id__lte=between[1])
        rows = rows.filter(pk__gt=between[0], pk__lte=between[1])
    dead = Q(here__state__in=[str(state) for state in states], here__first_delivered_at__isnull=True)
    never = Q(here__isnull=True, replay_of__isnull=True, fanned_out_at__isnull=False)
    rows = rows.filter(occurred_at__gte=window.since)
    if window.until is not None:
        rows = rows.filter(occurred_at__lt=window.until)
    rows = rows.annotate(here=FilteredRelation("deliveries", condition=here)).filter(dead | never)
    return rows.annotate(delivery_key=F("here__pk")).defer("body")


def delivery_key(event: Event) -> int | None:
    """Return the key of the dead delivery of an event that `lacking` found; None: it never had one."""
    key: int | None = event.delivery_key  # type: ignore[attr-defined]
    return key
