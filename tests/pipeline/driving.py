"""Steps of the path, one at a time, in the test's own thread or in several."""

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.db import connections

from webhooks_app.models import Attempt, Delivery, Endpoint
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.batch import Batch, OutcomesKeptError, contents_of, prepare
from webhooks_app.pipeline.follow_up import Recorded
from webhooks_app.pipeline.gates import Room
from webhooks_app.pipeline.lease import lease
from webhooks_app.pipeline.sending import Configs
from webhooks_app.pipeline.work import Lease

from .factories import emit_for

ALIAS = "default"
# Without `available_apps` every test would recreate the permissions of all apps.
_APPS = ["webhooks_app", "tests.testapp"]
committed = pytest.mark.django_db(transaction=True, available_apps=_APPS)
committed_in_both = pytest.mark.django_db(
    transaction=True, available_apps=_APPS, databases=["default", "second"]
)


def keys_of(endpoints: Iterable[Endpoint]) -> list[int]:
    """Return the keys of endpoints."""
    return [endpoint.pk for endpoint in endpoints]


def run_path() -> None:
    """Fan out what waits, and send everything that is due at any endpoint."""
    inline.fan_out()
    inline.deliver(keys_of(Endpoint.objects.order_by("pk")))


def waiting(endpoint: Endpoint, count: int = 1, **values: Any) -> list[Delivery]:
    """Make `count` deliveries that are due at an endpoint, through emit and fan-out; oldest first."""
    known = set(Delivery.objects.values_list("pk", flat=True))
    emit_for(endpoint, count, **values)
    inline.fan_out()
    rows = Delivery.objects.filter(endpoint=endpoint).exclude(pk__in=known)
    return list(rows.order_by("position"))


def claim(*endpoints: Endpoint, senders: int = 1_000, cautious: int | None = None) -> Lease:
    """Lease what is due at these endpoints."""
    return lease(ALIAS, keys_of(endpoints), Room(senders, senders if cautious is None else cautious))


def claimed(lease: Lease) -> dict[int, int]:
    """Return how many deliveries of each endpoint a lease holds."""
    counts: dict[int, int] = {}
    for job in lease.jobs:
        counts[job.endpoint_id] = counts.get(job.endpoint_id, 0) + 1
    return counts


def send(held: Lease, *, configs: Configs | None = None, stopping: bool = False) -> Callable[[], Recorded]:
    """Send what a lease holds, or give it back because the process stops; the returned function records."""
    configs = configs or Configs()
    prepare(ALIAS, held, configs)
    batch = Batch(held, contents_of(ALIAS, held), lambda _: None)
    for unit in held.units:
        batch.send(unit, configs.get(unit[0].endpoint_id), lambda: stopping)
    return lambda: batch.record(ALIAS, configs)


def disabled_by(recorded: Recorded) -> list[tuple[int, str]]:
    """Return the endpoints that a record disabled, and why."""
    return [(news.endpoint_id, news.reason) for news in recorded.news if news.kind == "webhook.disabled"]


def insist(record: Callable[[], Recorded]) -> Recorded:
    """Record; what was kept because somebody had the row locked is recorded with the next try."""
    while True:
        with contextlib.suppress(OutcomesKeptError):
            return record()


def attempt(*endpoints: Endpoint) -> Recorded:
    """Lease once, send, record."""
    return send(claim(*endpoints))()


def attempts_of(delivery: Delivery) -> list[Attempt]:
    """Return a delivery's attempts by number."""
    return list(Attempt.objects.filter(delivery=delivery).order_by("number"))


def check_books() -> None:
    """Check what must hold at rest: numbers 1..n without gap, counters that agree, no claim left."""
    for delivery in Delivery.objects.all():
        numbers = [each.number for each in attempts_of(delivery)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert delivery.attempts == len(numbers)
        assert delivery.lease_token is None
        assert (delivery.state == "pending") == (delivery.finished_at is None)
        assert (delivery.due_at is None) == (delivery.state != "pending")


def in_threads(*works: Callable[[], object], seconds: float = 30) -> list[Any]:
    """Run works side by side, each with database connections of its own; return their results."""
    results: list[Any] = [None] * len(works)
    errors: list[BaseException] = []
    together = threading.Barrier(len(works))

    def run(place: int) -> None:
        try:
            together.wait(10)
            results[place] = works[place]()
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if errors:
        raise errors[0]
    return results
