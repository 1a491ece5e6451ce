"""Rows for the tests of the actions: endpoints as registered, events and deliveries as left by the path."""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from webhooks_app.actions.actor import PERMISSIONS, Actor, operator
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.core.states import DELIVERED, PENDING
from webhooks_app.ids import new_id, new_token
from webhooks_app.models import Attempt, Delivery, Endpoint, Event, OutboxEntry

URL = "https://hooks.customer.com/in"
OPERATOR = operator("command", "test")
ALL = frozenset(PERMISSIONS)


def tenant(tenant_id: str = "acme", **values: Any) -> Actor:
    """An actor with a tenant's key."""
    return Actor("key", "key_1", scope="tenant", scope_id=tenant_id, **{"permissions": ALL, **values})


def partner(partner_id: str = "umbrella", **values: Any) -> Actor:
    """An actor with a partner's key."""
    return Actor("key", "key_2", scope="partner", scope_id=partner_id, **{"permissions": ALL, **values})


def make_endpoint(**values: Any) -> Endpoint:
    """Register an endpoint; of the tenant acme unless said otherwise."""
    if "partner_id" not in values:
        values.setdefault("tenant_id", "acme")
    return register_endpoint(OPERATOR, **{"url": URL, "events": ["*"], **values}).endpoint


def make_event(*, age: timedelta = timedelta(hours=1), **values: Any) -> Event:
    """An event that was fanned out, with its dispatched outbox entry."""
    moment = timezone.now() - age
    public_id = values.pop("public_id", None) or new_id("evt")
    common = {"type": "order.paid", "tenant_id": "acme", "environment": "live", "occurred_at": moment}
    common |= {"recorded_at": moment, **values}
    outbox = {
        name: common[name] for name in ("type", "tenant_id", "environment", "occurred_at", "recorded_at")
    }
    entry = OutboxEntry.objects.create(event_id=public_id, body=b"{}", dispatched_at=moment, **outbox)
    fanned_out = common.pop("fanned_out_at", moment)
    return Event.objects.create(
        public_id=public_id, outbox_alias="default", outbox_id=entry.pk, fanned_out_at=fanned_out, **common
    )


def make_delivery(endpoint: Endpoint, event: Event | None = None, **values: Any) -> Delivery:
    """A delivery; open and due unless said otherwise."""
    event = event or make_event(tenant_id=endpoint.tenant_id)
    now = timezone.now()
    values = {"state": PENDING, "due_at": now, "position": 1, "created_at": event.recorded_at, **values}
    if values["state"] != PENDING:
        values = {"finished_at": now, **values, "due_at": None}
    if values["state"] == DELIVERED:
        values = {"first_delivered_at": now, "attempts": 1, **values}
    return Delivery.objects.create(
        endpoint=endpoint, event=event, occurred_at=event.occurred_at, expires_at=event.expires_at, **values
    )


def make_attempt(delivery: Delivery, number: int = 1) -> Attempt:
    """The evidence of a failed attempt."""
    return Attempt.objects.create(
        id=new_token(),
        delivery=delivery,
        endpoint_id=delivery.endpoint_id,
        event_id="evt",
        event_type="order.paid",
        number=number,
        trigger="schedule",
        status="failed",
        duration_ms=1,
        url=URL,
        created_at=timezone.now(),
    )


def leased(until: datetime | None = None) -> dict[str, Any]:
    """The columns of a delivery that is being sent."""
    return {"lease_token": new_token(), "lease_until": until or timezone.now() + timedelta(seconds=30)}


# A lock on a row names no database; but whoever waits for it holds locks on tables of its own. Other test
# processes share the server.
_BLOCKED = """SELECT 1 FROM pg_locks AS waiting JOIN pg_locks AS held ON held.pid = waiting.pid
WHERE NOT waiting.granted
AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def wait_for_a_blocked_session() -> None:
    """Return when another session of this database waits for a lock (PostgreSQL)."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            # Not pg_stat_activity, of which a transaction sees the same snapshot again and again.
            cursor.execute(_BLOCKED)
            if cursor.fetchone():
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def together(*jobs: Callable[[], Any]) -> list[Any]:
    """Run the jobs at the same time, each in a thread of its own; return results or the exceptions."""
    start, results = threading.Barrier(len(jobs)), [None] * len(jobs)

    def run(place: int) -> None:
        start.wait(10)
        try:
            results[place] = jobs[place]()
        except Exception as error:
            results[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a job hangs"
    return results
