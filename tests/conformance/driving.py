"""Steps of the tests: an event, the next moment of a schedule, what the books say."""

import base64
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from tests.pipeline.conftest import Clock
from webhooks_app import emit
from webhooks_app.models import Attempt, Delivery
from webhooks_app.pipeline import clock as path_clock
from webhooks_app.pipeline import inline

SECRET = "whsec_" + base64.b64encode(b"the consumer's secret, 32 bytes.").decode()


def emit_event(data: Any = None, *, type: str = "order.paid", **values: Any) -> str:
    """Record one event of the tenant acme, inside a transaction; return its id."""
    with transaction.atomic():
        return emit(type, {"n": 1} if data is None else data, **{"tenant": "acme", **values}).id


def now() -> datetime:
    """The path's present moment."""
    return path_clock.db_now("default")


def delivery() -> Delivery:
    """The only delivery there is."""
    return Delivery.objects.get()


def attempts() -> list[Attempt]:
    """Every attempt, by number."""
    return list(Attempt.objects.order_by("number", "id"))


def let_due(clock: Clock) -> None:
    """Move the clock to the moment the delivery is due, unless that has passed already, and tick."""
    due_at = delivery().due_at
    assert due_at is not None, "the delivery has ended"
    clock.ahead += max(due_at - now(), timedelta()) + timedelta(seconds=0.05)
    inline.tick_once()
