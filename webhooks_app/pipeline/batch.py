"""A lease on its way: sent by many threads, recorded by the engine's one."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from django.db import DataError, IntegrityError, InterfaceError, OperationalError

from ..destinations.base import Sent
from ..destinations.config import EndpointConfig, load_configs
from . import announce
from .contents import read_contents
from .follow_up import Recorded
from .judge import judge
from .probes import ping_contents
from .record import record
from .sending import Configs, lost, send_job
from .work import Content, Done, Job, Lease, Unit

logger = logging.getLogger("webhooks_app.pipeline")

FULL = 100
LINGER = 0.05


class OutcomesKeptError(Exception):
    """Some outcomes were not written, because the state rows of their endpoints are locked."""


class Batch:
    """Claimed deliveries and what became of them. `finish` is called by senders, the rest by the engine."""

    def __init__(self, lease: Lease, contents: dict[int, Content], notify: Callable[["Batch"], None]) -> None:
        self.lease = lease
        self.sent_at = time.monotonic()
        self.retry_at = 0.0
        self._contents = contents
        # What was sent with, for the evidence: the endpoint may change while its requests are open.
        self._used: dict[int, EndpointConfig | None] = {}
        self._notify = notify
        self._lock = threading.Lock()
        self._open = len(lease.jobs)
        self._units = {unit[-1].id: unit for unit in lease.units}
        self._cautious = sum(lease.gates[unit[0].endpoint_id].cautious for unit in lease.units)
        self._done: list[Done] = [lost(lease, job, contents.get(job.event_id)) for job in lease.lost]
        self._first_at = self.sent_at if self._done else 0.0

    def send(self, unit: Unit, config: EndpointConfig | None, stopping: Callable[[], bool]) -> None:
        """Send a unit's jobs one after another, in a sender's thread.

        The first that does not succeed ends it; what comes behind is given back unattempted.
        """
        goes_on = True
        for job in unit:
            if goes_on:
                done = self._send(job, config, stopping)
                goes_on = done.sent is not None and done.sent.result.ok
            else:
                now = self.lease.now(time.monotonic())
                done = Done(job, self._contents.get(job.event_id), None, now)
            self.finish(done, last=job is unit[-1])

    def _send(self, job: Job, config: EndpointConfig | None, stopping: Callable[[], bool]) -> Done:
        content = self._contents.get(job.event_id)
        self._used[job.endpoint_id] = config
        try:
            return send_job(self.lease, job, config, content, stopping=stopping())
        except Exception as error:  # without an outcome it would keep a sender's place for ever
            logger.error("a request met a fault of ours: %s", type(error).__name__)
            return lost(self.lease, job, content)

    def finish(self, done: Done, *, last: bool = True) -> None:
        """Take an outcome; the engine is told when there is enough to record. `last` frees the sender."""
        with self._lock:
            self._first_at = self._first_at or time.monotonic()
            self._done.append(done)
            self._open -= 1
            if last:
                self._units.pop(done.job.id, None)
            ripe = not self._open or len(self._done) >= FULL
        if ripe:
            self._notify(self)

    @property
    def busy(self) -> int:
        """How many senders are at work for it, or will be."""
        return len(self._units)

    @property
    def under_way(self) -> list[Unit]:
        """The units that are being sent, or will be."""
        with self._lock:
            return list(self._units.values())

    @property
    def settled(self) -> bool:
        """Whether everything is recorded."""
        return not self._open and not self._done

    @property
    def cautious(self) -> int:
        """How many of them may be at unknown or slow endpoints."""
        return min(self.busy, self._cautious)

    def is_ripe(self, now: float) -> bool:
        """Whether outcomes wait that should be recorded now."""
        if not self._done or now < self.retry_at:
            return False
        return not self._open or len(self._done) >= FULL or now - self._first_at >= LINGER

    def record(self, alias: str, configs: Configs) -> Recorded:
        """Record what is done; the outcomes are kept when the database fails.

        Raises:
            OutcomesKeptError: those of some endpoints were kept, the others are recorded.
        """
        with self._lock:
            done, self._done = self._done, []
            self._first_at = 0.0
        try:
            result = _record(alias, self.lease, done, self._used or configs)
        except Exception:
            with self._lock:
                self._done = done + self._done
                self._first_at = self._first_at or time.monotonic()
            raise
        if result.kept:
            with self._lock:
                self._done = result.kept + self._done
                self._first_at = self._first_at or time.monotonic()
        announce.recorded(result, self.lease.now(time.monotonic()))
        if result.kept:
            raise OutcomesKeptError
        return result

    def record_singly(self, alias: str, configs: Configs) -> None:
        """Record outcome by outcome, after all together were refused: one faulty one stops no other.

        An outcome that cannot be written is recorded without what its receiver answered.

        Raises:
            OutcomesKeptError: some could not be written even so.
        """
        with self._lock:
            done, self._done = self._done, []
        refused: list[Done] = []
        try:
            while done:
                try:
                    self._record_one(done[0], alias, configs)
                except (OperationalError, InterfaceError, OutcomesKeptError):
                    raise
                except Exception:  # whatever is wrong with this one, the next may be fine
                    refused.append(done[0])
                del done[0]
        finally:
            with self._lock:
                self._done = refused + done + self._done
        if refused:
            raise OutcomesKeptError

    def _record_one(self, done: Done, alias: str, configs: Configs) -> None:
        try:
            result = _record(alias, self.lease, [done], self._used or configs)
        except (DataError, IntegrityError):
            result = _record(alias, self.lease, [_bare(done)], self._used or configs)
        announce.recorded(result, self.lease.now(time.monotonic()))
        if result.kept:
            raise OutcomesKeptError

    def give_up(self) -> int:
        """Forget outcomes that could not be recorded before the claim lapsed; another worker has it."""
        with self._lock:
            dropped, self._done = len(self._done), []
        return dropped


def _bare(done: Done) -> Done:
    if done.sent is None:
        return done
    result = replace(done.sent.result, headers=(), body=b"", detail="unrecordable", target_ip=None)
    return replace(done, sent=Sent(result))


def _record(
    alias: str, lease: Lease, done: list[Done], configs: Configs | Mapping[int, EndpointConfig | None]
) -> Recorded:
    finished = [each for each in done if each.sent is not None]
    released = [each for each in done if each.sent is None]
    judged = [judge(each, lease.gates[each.job.endpoint_id], chance=random.random()) for each in finished]
    known = {
        endpoint_id: config
        for endpoint_id in {each.job.endpoint_id for each in finished}
        if (config := configs.get(endpoint_id)) is not None
    }
    return record(alias, lease, judged, released, configs=known)


def prepare(alias: str, lease: Lease, configs: Configs) -> None:
    """Load the configurations that a lease's endpoints need and the process does not have."""
    wanted = {job.endpoint_id for job in lease.jobs}
    missing = configs.missing({endpoint_id: lease.gates[endpoint_id].revision for endpoint_id in wanted})
    if missing:
        configs.add(load_configs(alias, missing))


def contents_of(alias: str, lease: Lease) -> dict[int, Content]:
    """Return what the jobs of a lease send, by event."""
    jobs = (*lease.jobs, *lease.lost)
    contents = read_contents(alias, {job.event_id for job in jobs if not job.is_ping})
    return {**contents, **ping_contents(jobs, lease.gates, lease.claimed_at)}
