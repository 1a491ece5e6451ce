"""Tickets: what a task asks of the engine, done in steps so that no step holds up the others."""

import threading
import time
from typing import TYPE_CHECKING

from ..conf import current
from . import announce, doorbell, tick
from .dispatch import has_waiting
from .fan_out import Batch as FannedOut
from .fan_out import fan_out_batch, fan_out_own
from .index import has_unfanned, look
from .spacing import SpacedWakes
from .transactions import reading

if TYPE_CHECKING:
    from .batch import Batch
    from .engine import Engine

SLICE = 2.0
HAND_OVER = 0.1
HELP_EVERY = 0.5
HELP_FROM = 50
ONE_HOP = 20


class Ticket:
    """A piece of work. `step` returns True when the asker need not wait any longer."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def step(self, engine: "Engine") -> bool:
        """Do a bit, in the engine's thread."""
        raise NotImplementedError

    @property
    def is_waiting(self) -> bool:
        """Whether the next step has to wait for requests; else it can be done at once."""
        return False

    def close(self) -> None:
        """Let the asker go on."""
        self._closed.set()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is done for it."""
        return self._closed.is_set()

    def wait(self) -> None:
        """Wait until the work is done or handed over."""
        self._closed.wait()


class Sending(Ticket):
    """Work on one batch of deliveries after the other; a batch that takes long is left to the engine.

    Where slow endpoints have a queue of their own, only a ticket from there (`slow`) serves them.
    """

    def __init__(self, *, slow: bool) -> None:
        super().__init__()
        self.slow = slow
        self._batch: Batch | None = None
        self._helped_at = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether requests are under way whose end may be close."""
        batch = self._batch
        return batch is not None and not batch.settled and time.monotonic() - batch.sent_at < HAND_OVER

    def _lease(self, engine: "Engine", endpoint_ids: list[int], *, bulk: int) -> None:
        self._batch = batch = engine.start(endpoint_ids, slow=self.slow, bulk=bulk) if endpoint_ids else None
        if batch is None:
            return
        now = time.monotonic()
        if len(batch.lease.units) >= HELP_FROM and now - self._helped_at >= HELP_EVERY:
            # Another process may share the load: one alone is limited by its interpreter lock.
            self._helped_at = now
            announce.wake(batch.lease.more, slow=self.slow)


class Deliver(Sending):
    """Send what is due at some endpoints, once; who has more is carried on by the process's rounds."""

    def __init__(self, endpoint_ids: list[int], *, slow: bool = False) -> None:
        super().__init__(slow=slow)
        self._endpoint_ids = endpoint_ids

    def step(self, engine: "Engine") -> bool:
        """Lease, then wait for the batch."""
        if self._batch is None:
            bulk = engine.pace.most(time.monotonic(), in_rounds=False)
            self._lease(engine, engine.rounds.without(self._endpoint_ids, slow=self.slow), bulk=bulk)
            return self._batch is None
        if self.is_waiting:
            return False
        engine.rounds.add(self._batch.lease.more, slow=self.slow)
        return True


class FanOut(Ticket):
    """Fan out every outbox database for a slice of time.

    What a few endpoints got a little of is delivered at once: behind another's backlog it is not to wait in
    the queue for that backlog's deliveries too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deadline = time.monotonic() + SLICE
        self._wakes = SpacedWakes()
        self._sources: list[str | None] = [*current().OUTBOX_DATABASES, None]

    def step(self, engine: "Engine") -> bool:
        """Fan out one batch; the databases take turns, so that a busy one holds up no other."""
        source = self._sources.pop(0)
        try:
            again = self._fan_out(engine, source)
        except Exception:
            engine.look_later()
            self._wakes.settle()
            if self._sources:  # one database's trouble is not the others'; nobody waits for them, though
                self._deadline = time.monotonic() + SLICE
                engine.follow(self)
            raise
        if again:
            self._sources.append(source)
        late = time.monotonic() >= self._deadline
        if self._sources and not late:
            return False
        self._wakes.settle()
        doorbell.ring(fan_out=bool(self._sources))
        return True

    def _fan_out(self, engine: "Engine", source: str | None) -> bool:
        done = self._batch(engine.alias, source)
        self._deliver(engine, done)
        if done.failed:
            engine.look_later()
        # After its commit the holder looks once more without the lock: who found it taken has gone home.
        # An entry that failed is tried again with the next hint, not at once.
        waits = not done.failed and self._waits(engine.alias, source)
        return done.locked and (done.more or waits)

    def _waits(self, alias: str, source: str | None) -> bool:
        if source is None:
            return False
        if source != alias:
            return has_waiting(source)
        entries, own = look(alias)
        if not own and None in self._sources:
            self._sources.remove(None)
        return entries

    def _batch(self, alias: str, source: str | None) -> FannedOut:
        if source is not None:
            return fan_out_batch(alias, source)
        with reading(alias) as tx:
            waits = has_unfanned(tx)
        return fan_out_own(alias) if waits else FannedOut()

    def _deliver(self, engine: "Engine", done: FannedOut) -> None:
        if done.counts:
            engine.pace.saw_live(time.monotonic())
        few = {endpoint_id for endpoint_id, count in done.counts.items() if count <= ONE_HOP}
        if not 0 < len(few) <= ONE_HOP:
            few = set()
        self._wakes.add(done.counts.keys() - few)
        if few:
            engine.begin(Deliver(sorted(few)))


class Tick(Ticket):
    """Look for what lost hints left behind."""

    def step(self, engine: "Engine") -> bool:
        """Look once and wake what was found."""
        tick.wake(tick.look(engine.alias))
        return True
