"""Whatever happens in whatever order: a lane's oldest pending row is due, and what is sent is that row."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhooks_app.actions.ending import End, end_open
from webhooks_app.core.attempt import AttemptResult
from webhooks_app.core.states import CANCELLED
from webhooks_app.models import Delivery, EndpointState
from webhooks_app.net.transport import Request
from webhooks_app.pipeline import inline, manual, requeue
from webhooks_app.pipeline.renewal import renew
from webhooks_app.pipeline.transactions import short
from webhooks_app.pipeline.work import Lease

from .conftest import Clock
from .driving import ALIAS, claim, send
from .ordered import check_lanes, emit_owned, ordered
from .receiver import OK, Receiver, headers_of, reply

pytestmark = pytest.mark.django_db

# The rules are the same whatever database keeps the rows; each has its own statements.
EXAMPLES = 30 if connection.vendor == "postgresql" else 10

ABORT = reply(400, webhook_delivery="abort-message")
ANSWERS = {"ok": OK, "fail": reply(500), "abort": ABORT, "hold": reply(503, retry_after="7")}


class Model:
    """An endpoint, the leases that are out, and what the receiver may be sent next."""

    def __init__(self, ordering: str, receiver: Receiver, clock: Clock) -> None:
        self.clock = clock
        self.endpoint = ordered(ordering, policy_overrides={"waits": [30, 30], "jitter": 0})
        self.out: list[Lease] = []
        self.moods: Iterator[str] = iter(())
        self.sent: list[int] = []
        self.wrong: list[str] = []
        receiver.always(self.endpoint, self.receive)

    @property
    def now(self) -> Any:
        return timezone.now() + self.clock.ahead

    def receive(self, request: Request) -> AttemptResult:
        """Check that it is its lane's turn; rows of this chain that are not recorded yet have had theirs."""
        row = Delivery.objects.get(event__public_id=headers_of(request)["webhook-id"])
        rows = Delivery.objects.filter(lane=row.lane, state="pending").exclude(pk__in=self.sent)
        first = rows.order_by("position").first()
        if first is None or first.pk != row.pk:
            self.wrong.append(f"{row} was sent instead of {first}")
        answer = ANSWERS[next(self.moods, "ok")]
        if answer.ok:
            self.sent.append(row.pk)
        return answer

    def emit(self, owner: str, count: int) -> None:
        emit_owned(self.endpoint, owner, count)
        inline.fan_out()

    def claim(self) -> Lease:
        """Lease; nothing that is out or waits for its time may be taken."""
        pending = Delivery.objects.filter(state="pending")
        busy = set(pending.filter(lease_until__gte=self.now).values_list("pk", flat=True))
        early = set(pending.filter(due_at__gt=self.now).values_list("pk", flat=True))
        held = claim(self.endpoint)
        taken = {job.id for job in (*held.jobs, *held.lost)}
        assert not taken & busy
        assert not taken & early
        return held

    def lease(self) -> None:
        held = self.claim()
        if held.jobs or held.lost:
            self.out.append(held)

    def work(self, moods: list[str]) -> None:
        """Lease, send and record in one go."""
        self._end(self.claim(), moods)

    def finish(self, which: int, moods: list[str]) -> None:
        if self.out:
            self._end(self.out.pop(which % len(self.out)), moods)

    def _end(self, held: Lease, moods: list[str]) -> None:
        self.sent.clear()
        self.moods = iter(moods)
        # Who kept it beyond its end sends nothing more and records nothing.
        until = max([held.until, *held.renewed.values()])
        send(held, stopping=until < self.now)()

    def renew(self, which: int) -> None:
        if self.out:
            held = self.out[which % len(self.out)]
            renew(ALIAS, held, held.units)

    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    def switch(self, name: str) -> None:
        moment = timezone.now()
        values: dict[str, Any] = {
            "pause": {"paused_at": moment},
            "disable": {"enabled": False},
            "open": {"paused_at": None, "enabled": True, "hold_until": None},
        }[name]
        EndpointState.objects.update(**values)

    def some(self, which: int, **values: Any) -> Delivery | None:
        rows = list(Delivery.objects.filter(**values).order_by("position"))
        return rows[which % len(rows)] if rows else None

    def cancel(self, which: int) -> None:
        if row := self.some(which, state="pending"):
            end_open(ALIAS, row.endpoint_id, End(CANCELLED), only=[row.pk])

    def expire(self, which: int) -> None:
        if row := self.some(which, state="pending"):
            Delivery.objects.filter(pk=row.pk).update(expires_at=self.now + timedelta(seconds=20))

    def replay(self, which: int) -> None:
        row = self.some(which)
        if row and row.state != "pending":
            places = [requeue.Place.of(row.event, row.endpoint.ordering, row.pk)]
            self._move(row, lambda tx: _queue(tx, row.endpoint_id, places, self.now))

    def restart(self, which: int) -> None:
        if row := self.some(which, state="pending"):
            waiting = [requeue.Waiting(row.pk, row.lane)]
            self._move(row, lambda tx: requeue.restart(tx, row.endpoint_id, waiting, self.now))

    def resend(self, which: int, mood: str) -> None:
        """Beside the schedule, so out of turn."""
        row = self.some(which)
        if row is None:
            return
        self.moods = iter([mood])
        wrong = list(self.wrong)
        with suppress(manual.InFlightError):
            manual.send_now(ALIAS, row.pk)
        self.wrong = wrong

    def _move(self, row: Delivery, work: Callable[[Any], object]) -> None:
        with transaction.atomic():
            EndpointState.objects.select_for_update().get(pk=row.endpoint_id)
            short(ALIAS, work)

    def check(self) -> None:
        check_lanes()
        assert not self.wrong
        rows = Delivery.objects.filter(lease_token__isnull=False, lease_until__gte=self.now)
        tokens = defaultdict(set)
        for row in rows:
            tokens[row.endpoint_id, row.lane].add(row.lease_token)
        assert all(len(each) == 1 for each in tokens.values()), "a lane is out twice"

    def settle(self) -> None:
        """Let everything come to its end, with a receiver that is well."""
        self.switch("open")
        self.out.clear()
        leases = 0
        for _ in range(6):
            self.clock.advance(seconds=40)
            while (held := self.claim()).jobs or held.lost or held.more:
                self._end(held, [])
                self.check()
                leases += 1
                assert leases < 500, "it does not come to an end"
        assert not Delivery.objects.filter(state="pending").exists()


def _queue(tx: Any, endpoint_id: int, places: list[requeue.Place], now: Any) -> int:
    return requeue.queue(tx, endpoint_id, places, priority=requeue.BULK, now=now, delivered_too=True)


# The lowest are the heads of their lanes, where the most is at stake.
which = st.one_of(st.integers(0, 1), st.integers(0, 30))
moods = st.lists(st.sampled_from(["ok", *ANSWERS]), min_size=1, max_size=4)
WORK = st.tuples(st.just("work"), moods)
EMIT = st.tuples(st.just("emit"), st.sampled_from("ab"), st.integers(1, 3))
MOVES = st.one_of(
    WORK,
    WORK,
    EMIT,
    st.tuples(st.just("lease")),
    st.tuples(st.just("renew"), which),
    st.tuples(st.just("finish"), which, moods),
    st.tuples(st.just("wait"), st.sampled_from([8, 31, 60])),
    st.tuples(st.just("switch"), st.sampled_from(["pause", "disable", "open", "open"])),
    st.tuples(st.just("cancel"), which),
    st.tuples(st.just("expire"), which),
    st.tuples(st.just("replay"), which),
    st.tuples(st.just("restart"), which),
    st.tuples(st.just("resend"), which, st.sampled_from(list(ANSWERS))),
)


@pytest.mark.parametrize("ordering", ["fifo", "subject"])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(MOVES, min_size=25, max_size=50))
def test_a_lane_is_never_stuck_and_never_out_of_turn(
    ordering: str, moves: list[Any], receiver: Receiver, clock: Clock
):
    clock.ahead = timedelta()
    with transaction.atomic():
        model = Model(ordering, receiver, clock)
        model.emit("a", 3)
        for name, *arguments in moves:
            getattr(model, name)(*arguments)
            model.check()
        model.settle()
        transaction.set_rollback(True)
