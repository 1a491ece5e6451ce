"""The engine: one thread per process that leases and records, and lends work to the sender threads.

Its database connection is its own, so what Celery does to connections around tasks does not touch it. A task
hands it a ticket and waits until the ticket's work is done or handed over; requests that hang stay with the
engine, which records them whenever they end.
"""

import logging
import os
import queue
import threading
import time
from collections import deque
from functools import partial

from django.db import DatabaseError, InterfaceError, OperationalError, connections, reset_queries

from ..conf import current
from . import announce
from .batch import Batch, OutcomesKeptError, contents_of, prepare
from .cores import stay_on_one_core
from .dedicated import dedicate_all, forget_plans
from .dispatch import has_waiting
from .gates import BATCH_IN_ALL, Room
from .lease import lease
from .pace import pace
from .record import give_back
from .renewal import Renewals
from .rounds import CarriedOn
from .senders import Senders
from .sending import Configs
from .stuck import Stuck
from .tickets import FanOut, Tick, Ticket
from .transactions import is_passing
from .work import Content, Lease

logger = logging.getLogger("webhooks_app.pipeline")

BEAT = 0.01
IDLE_BEAT = 1.0
RECORD_AGAIN = 0.5
TICK_SECONDS = 5.0
GLANCE_SECONDS = 0.05


class Engine:
    """The process's pump. Every method but `submit`, `drain` and `is_stopping` belongs to its own thread."""

    def __init__(self) -> None:
        settings = current()
        self.alias = settings.DATABASE
        self.senders = Senders(settings.SENDER_THREADS, settings.MAX_SENDER_THREADS)
        self.configs = Configs()
        self._stuck = Stuck()
        self._renewals = Renewals()
        self._inbox: queue.SimpleQueue[Ticket | Batch | None] = queue.SimpleQueue()
        self._tickets: deque[Ticket] = deque()
        self.rounds = CarriedOn(self.follow)
        self.pace = pace()
        self._batches: list[Batch] = []
        self._stopping = threading.Event()
        self._ended = False
        self._house_at = time.monotonic() + TICK_SECONDS
        self._glance_at = 0.0
        self._thread = threading.Thread(target=self._run, name="webhooks-engine", daemon=True)
        self._thread.start()

    def submit(self, ticket: Ticket) -> None:
        """Take a ticket; `ticket.wait()` returns when it is through, or the engine has ended."""
        self._inbox.put(ticket)
        if self._ended:
            ticket.close()

    def is_stopping(self) -> bool:
        """Whether nothing new may be sent."""
        return self._stopping.is_set()

    def drain(self, seconds: float) -> bool:
        """Stop leasing, give back what was not sent, wait for open requests and record them.

        Returns whether everything was recorded within `seconds`.
        """
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            stay_on_one_core()
            dedicate_all((self.alias, *current().OUTBOX_DATABASES))
            while not (self._stopping.is_set() and not self._batches and not self._tickets):
                self._turn()
        finally:
            self._ended = True  # before the last look, so that every ticket is closed: there, or in `submit`
            self._let_go()
            self.senders.close()
            connections.close_all()

    def _let_go(self) -> None:
        """Close the tickets that nobody will do any more, lest their tasks wait for ever."""
        self.rounds.give_up()
        while not self._inbox.empty():
            self._take_in()
        for ticket in self._tickets:
            ticket.close()

    def _turn(self) -> None:
        try:
            self._take_in()
            self._record_ripe()
            self._advance()
            self._keep_house()
            self._glance()
            self._renewals.look(self.alias, self._batches)
            self.senders.grow()
            reset_queries()  # with DEBUG Django keeps thousands of statements, replies and all
        except Exception:  # the pump must go on, or every task of this process would wait for ever
            logger.exception("the delivery engine met a fault")
            time.sleep(RECORD_AGAIN)

    def _keep_house(self) -> None:
        """Every few seconds: a tick of this process's own, for the queue may be too long for beat's."""
        now = time.monotonic()
        if now < self._house_at or self.is_stopping():
            return
        self._house_at = now + TICK_SECONDS
        forget_plans(self.alias)
        self.follow(Tick())

    def _glance(self) -> None:
        """While tasks keep this process busy: see to new events; their hint may wait behind other tasks."""
        now = time.monotonic()
        if not self._tickets or now < self._glance_at or self.is_stopping():
            return
        self._glance_at = now + GLANCE_SECONDS
        if any(isinstance(ticket, FanOut) for ticket in self._tickets):
            return
        try:
            if any(has_waiting(alias) for alias in current().OUTBOX_DATABASES):
                self.follow(FanOut())
        except (DatabaseError, InterfaceError):  # the tick tells of it
            self.look_later()

    def look_later(self) -> None:
        """Leave entries that cannot be fanned out to the next hint, or the tick."""
        self._glance_at = time.monotonic() + TICK_SECONDS

    def _take_in(self) -> None:
        try:
            item = self._inbox.get(timeout=self._patience())
            while True:
                if isinstance(item, Ticket):
                    self._tickets.append(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            return

    def _patience(self) -> float:
        """How long to wait for news, in seconds."""
        if not all(ticket.is_waiting for ticket in self._tickets):
            return 0.0
        return BEAT if self._batches or self._tickets else IDLE_BEAT

    def _record_ripe(self) -> None:
        now = time.monotonic()
        for batch in self._batches:
            if batch.is_ripe(now):
                self._record(batch)
        if any(batch.settled for batch in self._batches):
            self._batches = [batch for batch in self._batches if not batch.settled]

    def _record(self, batch: Batch) -> None:
        try:
            self._write(batch)
        except Exception as error:  # the outcomes are kept and tried again while the claim holds
            now = time.monotonic()
            batch.retry_at = now + RECORD_AGAIN
            logger.warning("a record failed (%s) and is repeated", type(error).__name__)
            if batch.lease.seconds_left(now) <= 0:
                logger.error("%d outcomes were not recorded in time; they are sent again", batch.give_up())

    def _write(self, batch: Batch) -> None:
        try:
            batch.record(self.alias, self.configs)
        except OutcomesKeptError:
            raise
        except (OperationalError, InterfaceError) as error:
            is_passing(self.alias, error)
            raise
        except Exception as error:  # one outcome that cannot be written must not take the others with it
            # The type alone: the database's own words may hold what a receiver answered.
            logger.error("a record was refused (%s); its outcomes are written singly", type(error).__name__)
            batch.record_singly(self.alias, self.configs)

    def _advance(self) -> None:
        for _ in range(len(self._tickets)):
            ticket = self._tickets.popleft()
            if self._step(ticket):
                ticket.close()
            else:
                self._tickets.append(ticket)

    def _step(self, ticket: Ticket) -> bool:
        try:
            if self.is_stopping():
                self.rounds.give_up()
                return True
            return ticket.step(self)
        except Exception as error:  # one ticket's fault must not stop the process's pump
            if isinstance(error, DatabaseError | InterfaceError):
                is_passing(self.alias, error)
            logger.exception("a step of the path failed; the tick will find its work")
            return True

    def follow(self, ticket: Ticket) -> None:
        """Queue a ticket nobody waits for."""
        self._tickets.append(ticket)

    def begin(self, ticket: Ticket) -> None:
        """Do the first step of a ticket nobody waits for at once, and queue the rest."""
        if not self._step(ticket):
            self.follow(ticket)

    def room(self, bulk: int = BATCH_IN_ALL) -> Room:
        """Return how many more requests this process may open, at most `bulk` of them for bulk work."""
        opened = sum(batch.busy for batch in self._batches)
        cautious = sum(batch.cautious for batch in self._batches)
        # A process with a single sender must lend it to unknown endpoints, or it could never know one.
        return Room(self.senders.most - opened, max(0, max(1, self.senders.most // 2) - cautious), bulk)

    def start(self, endpoint_ids: list[int], *, slow: bool, bulk: int) -> Batch | None:
        """Lease what is due at these endpoints and start sending it; None when nothing was claimed.

        Args:
            slow: serve slow endpoints too, where they have a queue of their own.
            bulk: how many bulk deliveries to take at most; the rounds of bulk work see to the others.
        """
        now = time.monotonic()
        divert = not slow and current().SLOW_QUEUE_NAME is not None
        claim = lease(self.alias, self._stuck.others(endpoint_ids, now), self.room(bulk), divert=divert)
        self._stuck.add(claim.stuck, now)
        self.rounds.add(claim.resting, slow=slow, bulk=True)
        if not claim.units and not claim.lost:
            announce.leased(claim)
            announce.wake(claim.more, slow=slow)
            return None
        if claim.is_live:
            self.pace.saw_live(now)
        return self._send(claim)

    def _send(self, claim: Lease) -> Batch:
        batch = Batch(claim, self._contents(claim), self._inbox.put)
        self._batches.append(batch)
        for unit in claim.units:
            config = self.configs.get(unit[0].endpoint_id)
            self.senders.submit(partial(batch.send, unit, config, self.is_stopping))
        self.senders.grow()
        # Only now: whatever goes wrong with telling, the claim is on its way.
        announce.leased(claim)
        return batch

    def _contents(self, claim: Lease) -> dict[int, Content]:
        try:
            prepare(self.alias, claim, self.configs)
            return contents_of(self.alias, claim)
        except Exception:
            # Else the claim would keep its deliveries until it lapses, and count against them.
            give_back(self.alias, claim)
            raise


_engine: Engine | None = None
_making = threading.Lock()


def engine() -> Engine:
    """Return the process's engine; made on first use, and anew after a fork."""
    global _engine
    with _making:
        if _engine is None or not _engine._thread.is_alive():
            _engine = Engine()
        return _engine


def _after_fork() -> None:
    global _engine, _making
    _engine, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def shut_down(seconds: float) -> bool:
    """Drain the process's engine, if there is one; returns whether everything was recorded."""
    return _engine is None or _engine.drain(seconds)
