"""People at work beside the path: each function repeats one thing until `stopped`, in a thread of its own."""

import random
import threading
from collections.abc import Callable

from django.db import connections

from tests.e2e.invariants import rows
from tests.e2e.settings import ALIAS
from tests.e2e.stage import Stage
from webhooks_app.actions.ending import End, end_open
from webhooks_app.actions.pause import pause
from webhooks_app.actions.prune import prune
from webhooks_app.actions.resume import resume
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Endpoint

Person = Callable[[Stage, threading.Event], None]


def _again(work: Callable[[Stage], None]) -> Person:
    def person(stage: Stage, stopped: threading.Event) -> None:
        try:
            while not stopped.wait(0.05):
                work(stage)
        finally:
            connections[ALIAS].close()

    return person


def _any_endpoint() -> Endpoint:
    return random.choice(list(Endpoint.objects.using(ALIAS).all()))


@_again
def prune_often(stage: Stage) -> None:
    """Run the retention."""
    prune(max_seconds=1.0)


@_again
def cancel_some(stage: Stage) -> None:
    """End a few open deliveries, as a bulk action does."""
    found = rows(
        """SELECT endpoint_id, array_agg(id) FROM webhooks_app_delivery
        WHERE state = 'pending' AND id %% 17 = 0 GROUP BY endpoint_id"""
    )
    for endpoint_id, keys in found:
        end_open(ALIAS, endpoint_id, End(CANCELLED, ""), only=keys)


@_again
def pause_and_resume(stage: Stage) -> None:
    """Hold an endpoint for a moment."""
    endpoint = _any_endpoint()
    pause(stage.actor, endpoint)
    resume(stage.actor, endpoint)


@_again
def edit_endpoints(stage: Stage) -> None:
    """Change how many requests an endpoint may have in flight."""
    update_endpoint(stage.actor, _any_endpoint(), {"max_in_flight": random.randint(5, 20)})
