"""Missed: what an endpoint lacks, newest first, in pages that cost little however many events there are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from django.db.models import Q, QuerySet

from .. import conf
from ..core.states import DEAD
from ..exceptions import InvalidRequest
from ..models import Delivery, Endpoint, Event
from ..pipeline import clock
from .actor import WEBHOOKS_READ, Actor, require
from .eligible import Eligible
from .faults import Faults
from .lacking import Window, delivery_key, lacking
from .replay_selection import check_window
from .scope import get_endpoint

# Events that one call looks at: some tenths of a second, whatever it finds.
STRETCH, STRETCHES = 5_000, 10
# More than an event's time may be ahead of its recording.
SLACK = timedelta(days=1)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Missed:
    """An event that an endpoint lacks, and its dead delivery; None: it never had one."""

    event: Event
    delivery: Delivery | None


@dataclass(frozen=True, slots=True)
class MissedPage:
    """Some of them, newest first; `cursor` goes on behind it, None at the end. A page may be empty."""

    rows: Sequence[Missed]
    cursor: str | None


class _Place(NamedTuple):
    """Between two events of a list: behind the one of this time and key."""

    moment: datetime
    key: int

    @classmethod
    def of(cls, event: Event) -> "_Place":
        return cls(event.occurred_at, event.pk)

    def as_text(self) -> str:
        return f"{(self.moment - _EPOCH) // timedelta(microseconds=1)}.{self.key}"


def missed(
    actor: Actor,
    endpoint: Endpoint,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    cursor: str | None = None,
    limit: int = 25,
) -> MissedPage:
    """Return events whose delivery to the endpoint died, and those it may have today and never had.

    Those from before it was created are among them, and none that is past its retention, removed or not. A
    call looks at some ten thousands of events at most and returns what it found.

    Args:
        since, until: a window of `occurred_at`, `until` excluded; default: the whole retention.
        cursor: of the page before.
        limit: rows of a page at most.

    Raises:
        InvalidRequest: bad values.
        NotFound: deleted, or not the actor's.
        PermissionDenied: without `webhooks:read`.
    """
    require(actor, WEBHOOKS_READ)
    faults = Faults()
    check_window(since, until, faults)
    faults.finish()
    alias = conf.current().DATABASE
    fresh = get_endpoint(actor, endpoint.public_id)
    eligible = Eligible(alias, fresh, clock.db_now(alias))
    window = Window.within(eligible, since, until)
    found, behind = _Search(fresh, eligible, window).page(_read(cursor), limit)
    keys = {event.pk: key for event in found if (key := delivery_key(event)) is not None}
    dead = Delivery.objects.using(alias).in_bulk(list(keys.values()))
    rows = [Missed(event, dead.get(keys.get(event.pk, 0))) for event in found]
    return MissedPage(rows, behind and behind.as_text())


def _read(cursor: str | None) -> _Place | None:
    if cursor is None:
        return None
    match = _CURSOR.fullmatch(cursor)
    try:
        if match:
            return _Place(_EPOCH + timedelta(microseconds=int(match[1])), int(match[2]))
    except OverflowError:
        pass
    raise InvalidRequest([("cursor", "must be the cursor of a page before")])


class _Order(Protocol):
    """An order that an index of the scope has, the newest first."""

    fields: tuple[str, ...]

    def behind(self, place: _Place) -> Q:
        """Return the condition of what comes after the place."""

    def up_to(self, place: _Place) -> Q:
        """Return the condition of what comes before it, its own event included."""


class _ByTime:
    """Within a tenant or a partner: by `occurred_at`."""

    fields: tuple[str, ...] = ("-occurred_at", "-pk")

    def behind(self, place: _Place) -> Q:
        # Said twice: a database seeks to the first condition, and filters by the second.
        return Q(occurred_at__lte=place.moment) & (Q(occurred_at__lt=place.moment) | Q(pk__lt=place.key))

    def up_to(self, place: _Place) -> Q:
        return Q(occurred_at__gte=place.moment) & (Q(occurred_at__gt=place.moment) | Q(pk__gte=place.key))


class _ByKey:
    """For the platform, that has all events: in the order of their recording."""

    fields: tuple[str, ...] = ("-pk",)

    def behind(self, place: _Place) -> Q:
        return Q(pk__lt=place.key)

    def up_to(self, place: _Place) -> Q:
        return Q(pk__gte=place.key)


class _Search:
    """Goes through the events of an endpoint's scope in stretches and collects what it lacks."""

    def __init__(self, endpoint: Endpoint, eligible: Eligible, window: Window) -> None:
        self._eligible = eligible
        self._order: _Order = _ByKey() if endpoint.scope == "platform" else _ByTime()
        self._window = window
        self._all = eligible.owned()
        if endpoint.scope != "platform":
            # A tenant's events of the other environment are none of its business, their number included.
            self._all = self._all.filter(self._within(), environment=endpoint.environment)
        self._lacking = lacking(eligible.wanted(), endpoint, window, states=DEAD)

    def page(self, place: _Place | None, limit: int) -> tuple[list[Event], _Place | None]:
        """Return at most so many events behind a place (None: the beginning), and where the next ones are."""
        page: list[Event] = []
        for _ in range(STRETCHES):
            end, is_last = self._end(place)
            room = limit - len(page)
            found = self._between(place, end, room)
            page += [event for event in found if self._eligible.keeps(event) and self._eligible.wants(event)]
            if len(found) == room:
                place = _Place.of(found[-1])
                if len(page) == limit:
                    break
            elif is_last:
                return page, None
            else:
                place = end
        return page, place

    def _end(self, place: _Place | None) -> tuple[_Place | None, bool]:
        """Return the end of the stretch behind a place (None: of the table), and whether it is the last.

        What was recorded long before the window has not occurred in it.
        """
        rows = self._all if place is None else self._all.filter(self._order.behind(place))
        ends = rows.order_by(*self._order.fields)[STRETCH - 1 : STRETCH]
        found = ends.values_list("occurred_at", "pk", "recorded_at").first()
        if found is None:
            return None, True
        return _Place(*found[:2]), found[2] < self._window.since - SLACK

    def _between(self, place: _Place | None, end: _Place | None, room: int) -> list[Event]:
        rows: QuerySet[Event] = self._lacking
        if place is not None:
            rows = rows.filter(self._order.behind(place))
        if end is not None:
            rows = rows.filter(self._order.up_to(end))
        return list(rows.order_by(*self._order.fields)[:room])

    def _within(self) -> Q:
        within = Q(occurred_at__gte=self._window.since)
        return within if self._window.until is None else within & Q(occurred_at__lt=self._window.until)
