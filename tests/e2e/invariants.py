"""What must hold after every fault, read from the tables and from the receiver's memory."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

from django.db import connections

from tests.e2e.receiver import Post, Receiver
from tests.e2e.settings import ALIAS
from webhooks_app.core.ids import format_id


@dataclass(slots=True)
class Report:
    """What the checks counted. `unrecorded` are requests that a crash fell after."""

    deliveries: int
    attempts: int
    posts: int
    unrecorded: list[Post]

    @property
    def doubled(self) -> int:
        """How many requests more than recorded attempts the receiver saw."""
        return len(self.unrecorded)


def rows(sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement in the test's database."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall()) if cursor.description else []


def check(
    posts: Sequence[Post],
    events: Collection[str],
    *,
    endpoints: int,
    ends: Collection[str] = ("delivered",),
    rude: Collection[str] = (),
) -> Report:
    """Check that nothing is lost, nothing invented, and every number used once.

    Args:
        posts: everything the receiver saw.
        events: ids of the events whose transaction committed; exactly these must exist.
        endpoints: how many endpoints each of them has.
        ends: states that its deliveries may have ended in.
        rude: paths that hang up on kept connections; a request there may be sent once more in its attempt.
    """
    _check_outbox(set(events))
    _check_deliveries(set(events), endpoints, set(ends))
    _check_attempts()
    _check_repeats(posts, {f"/{name}" for name in rude})
    return _check_posts(posts)


def check_order(receiver: Receiver, name: str) -> int:
    """Check that at path `/name` no event was sent before its predecessor in the lane was accepted.

    Returns:
        How many lanes there were.
    """
    first: dict[str, float] = {}
    for post in receiver.at(name):
        first.setdefault(post.event_id, post.at)
    found = rows(
        """SELECT d.lane, e.public_id FROM webhooks_app_delivery d
        JOIN webhooks_app_event e ON e.id = d.event_id JOIN webhooks_app_endpoint w ON w.id = d.endpoint_id
        WHERE w.url LIKE %s AND d.lane IS NOT NULL ORDER BY d.lane, d.position""",
        f"%/{name}",
    )
    lanes = [[row[1] for row in lane] for _, lane in groupby(found, key=lambda row: row[0])]
    for before, after in (pair for lane in lanes for pair in pairwise(lane) if pair[1] in first):
        accepted = receiver.accepted.get((f"/{name}", before))
        assert accepted is not None, f"{after} was sent, {before} never accepted"
        assert accepted <= first[after], f"{after} overtook {before}"
    return len(lanes)


def _check_outbox(events: set[str]) -> None:
    entries = rows("SELECT event_id, dispatched_at IS NOT NULL, set_aside_at FROM webhooks_app_outboxentry")
    assert {row[0] for row in entries} == events, "the outbox is not what was committed"
    assert [row for row in entries if not row[1] or row[2]] == [], "entries wait or are set aside"


def _check_deliveries(events: set[str], endpoints: int, ends: set[str]) -> None:
    found = rows(
        """SELECT e.public_id, d.endpoint_id, d.state, d.lease_token FROM webhooks_app_delivery d
        JOIN webhooks_app_event e ON e.id = d.event_id WHERE e.type NOT LIKE 'webhook.%%'"""
    )
    pairs = Counter((row[0], row[1]) for row in found)
    assert [pair for pair, count in pairs.items() if count > 1] == [], "an endpoint has an event twice"
    per_event = Counter(row[0] for row in found)
    wrong = {event: per_event[event] for event in events if per_event[event] != endpoints}
    assert wrong == {}, f"deliveries per event, {endpoints} expected"
    assert per_event.keys() <= events, "a delivery of an event that never committed"
    assert Counter(row[2] for row in found if row[2] not in ends) == {}, "open or badly ended deliveries"
    assert [row for row in found if row[3] is not None] == [], "an ended delivery is still claimed"


def _check_attempts() -> None:
    wrong = rows(
        """SELECT d.id, d.attempts, array_agg(a.number ORDER BY a.number)
        FROM webhooks_app_delivery d LEFT JOIN webhooks_app_attempt a ON a.delivery_id = d.id
        GROUP BY d.id, d.attempts
        HAVING d.attempts <> count(a.id) OR (count(a.id) > 0 AND
        (min(a.number) <> 1 OR max(a.number) <> count(a.id) OR count(DISTINCT a.number) <> count(a.id)))"""
    )
    assert wrong == [], "attempt numbers have gaps or repeats"
    twice = rows(
        """SELECT delivery_id FROM webhooks_app_attempt WHERE status = 'succeeded'
        GROUP BY delivery_id HAVING count(*) > 1"""
    )
    assert twice == [], "a delivery succeeded twice"


def _check_repeats(posts: Sequence[Post], rude: set[str]) -> None:
    seen = Counter((post.attempt_id, post.path) for post in posts)
    twice = [key for key, count in seen.items() if count > (2 if key[1] in rude else 1)]
    assert twice == [], "one attempt, two requests"


def _check_posts(posts: Sequence[Post]) -> Report:
    recorded = {
        format_id("att", row[0].int): (row[1], row[2], row[3])
        for row in rows("SELECT id, event_id, number, error FROM webhooks_app_attempt")
    }
    seen = {post.attempt_id for post in posts}
    for post in posts:
        if post.attempt_id in recorded:
            assert recorded[post.attempt_id][:2] == (post.event_id, post.attempt)
    silent = [each for each, row in recorded.items() if each not in seen and row[2] == ""]
    assert silent == [], "an attempt succeeded that the receiver never saw"
    return Report(
        deliveries=rows("SELECT count(*) FROM webhooks_app_delivery")[0][0],
        attempts=len(recorded),
        posts=len(posts),
        unrecorded=[post for post in posts if post.attempt_id not in recorded],
    )
