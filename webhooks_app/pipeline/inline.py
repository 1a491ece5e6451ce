"""The path without threads: every step in the caller's, one after another. For tests and small scripts."""

from collections.abc import Callable

from django.utils.module_loading import import_string

from ..conf import current
from . import announce, doorbell, tick
from .batch import Batch, contents_of, prepare
from .fan_out import fan_out_batch, fan_out_own
from .gates import Room
from .lease import lease
from .sending import Configs
from .work import Lease

ROOM = 1_000
# By its name, as tasks are sent: actions lie above the path.
JOBS = "webhooks_app.actions.run_jobs.run_jobs"


def fan_out() -> None:
    """Fan out everything that waits, then wake its endpoints."""
    alias = current().DATABASE
    for source in (*current().OUTBOX_DATABASES, None):
        while True:
            done = fan_out_own(alias) if source is None else fan_out_batch(alias, source)
            doorbell.ring(endpoint_ids=done.endpoint_ids)
            if not done.more:
                break


def deliver(endpoint_ids: list[int]) -> int:
    """Send everything that is due at these endpoints; returns how many attempts were recorded."""
    alias, configs, attempts = current().DATABASE, Configs(), 0
    while endpoint_ids:
        claim = lease(alias, endpoint_ids, Room(ROOM, ROOM))
        announce.leased(claim)
        if claim.units or claim.lost:
            attempts += _send(alias, claim, configs)
        endpoint_ids = list(claim.more)
    return attempts


def _send(alias: str, claim: Lease, configs: Configs) -> int:
    prepare(alias, claim, configs)
    batch = Batch(claim, contents_of(alias, claim), lambda _: None)
    for unit in claim.units:
        batch.send(unit, configs.get(unit[0].endpoint_id), lambda: False)
    return len(batch.record(alias, configs).attempts)


def tick_once() -> None:
    """Look for what is due and wake it."""
    tick.wake(tick.look(current().DATABASE))


def run_jobs() -> None:
    """Do every job of recovery that is open."""
    work: Callable[[], bool] = import_string(JOBS)
    while work():
        pass
