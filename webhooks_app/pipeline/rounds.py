"""A process's rounds: who had more than one lease may claim is served on, without a message for each time.

One for everybody, one for bulk work that keeps out of the way of live work, and the same for slow endpoints
where those have a queue of their own. Whoever has much takes turns with the tasks that come in, instead of
filling the queue with wakes and the workers with slices of time.
"""

import time
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from . import announce
from .hints import WAKE_SIZE
from .tickets import Sending, Ticket

if TYPE_CHECKING:
    from .engine import Engine


# Seconds until the next look when there was nothing to send at any of them.
IDLE = 0.05


class Rounds(Sending):
    """Goes on, batch after batch, at the endpoints that have more; nobody waits for it."""

    def __init__(self, *, slow: bool, bulk: bool) -> None:
        super().__init__(slow=slow)
        self._bulk = bulk
        self._waiting: dict[int, None] = {}
        self._at: list[int] = []
        self._began = self._rests_until = 0.0

    def add(self, endpoint_ids: Iterable[int]) -> None:
        """Carry these endpoints on."""
        self._waiting.update(dict.fromkeys(endpoint_ids))

    @property
    def endpoint_ids(self) -> set[int]:
        """Whom it carries on."""
        return {*self._waiting, *self._at}

    @property
    def is_waiting(self) -> bool:
        """Whether requests are under way whose end may be close, or bulk work rests."""
        return super().is_waiting or time.monotonic() < self._rests_until

    def step(self, engine: "Engine") -> bool:
        """Lease for the next endpoints when the last batch is recorded or takes long."""
        if super().is_waiting:
            return False
        now = time.monotonic()
        if self._batch is not None:
            self.add(self._batch.lease.more)
            self._batch, self._at = None, []
            if self._bulk:
                self._rests_until = now + engine.pace.rest(now - self._began, now)
        if now < self._rests_until:
            return False
        return not self._go_on(engine, now)

    def _go_on(self, engine: "Engine", now: float) -> bool:
        self._at = list(islice(self._waiting, WAKE_SIZE))
        for endpoint_id in self._at:
            del self._waiting[endpoint_id]
        self._began = now
        self._lease(engine, self._at, bulk=engine.pace.most(now, in_rounds=self._bulk))
        if self._at and self._batch is None:
            self._rests_until = now + IDLE
        return bool(self._at)


class CarriedOn:
    """The rounds of an engine; made when somebody is to be carried on, ended when nobody is left."""

    def __init__(self, follow: Callable[[Ticket], None]) -> None:
        self._follow = follow
        self._rounds: dict[tuple[bool, bool], Rounds] = {}

    def add(self, endpoint_ids: Collection[int], *, slow: bool, bulk: bool = False) -> None:
        """Carry these endpoints on; with `bulk`, their bulk work alone has to wait."""
        if not endpoint_ids:
            return
        rounds = self._running(slow=slow, bulk=bulk)
        if rounds is None:
            self._rounds[slow, bulk] = rounds = Rounds(slow=slow, bulk=bulk)
            self._follow(rounds)
        rounds.add(endpoint_ids)

    def without(self, endpoint_ids: Iterable[int], *, slow: bool) -> list[int]:
        """Leave out those that the rounds are at; they look there once more."""
        rounds = self._running(slow=slow, bulk=False)
        if rounds is None:
            return list(endpoint_ids)
        carried = rounds.endpoint_ids
        rounds.add(each for each in endpoint_ids if each in carried)
        return [each for each in endpoint_ids if each not in carried]

    def give_up(self) -> None:
        """Leave everybody to other processes."""
        for (slow, _), rounds in self._rounds.items():
            if not rounds.is_closed:
                announce.wake(rounds.endpoint_ids, slow=slow)

    def _running(self, *, slow: bool, bulk: bool) -> Rounds | None:
        rounds = self._rounds.get((slow, bulk))
        # One that met a fault is closed too; the tick finds what it had.
        return None if rounds is None or rounds.is_closed else rounds
