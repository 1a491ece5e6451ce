"""Rate limits: never more than the bucket allows, never less while there is work, shared without harm."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.core.rate import Rate
from webhooks_app.models import Delivery, Endpoint, EndpointState, RateBucket
from webhooks_app.pipeline import inline
from webhooks_app.pipeline.gates import share
from webhooks_app.pipeline.rates import host_of

from .copies import copies
from .driving import check_books, claim, committed, in_threads, insist, send, waiting
from .factories import EndpointFactory, emit_for
from .ordered import ids_of, units_of
from .receiver import Receiver, reply

pytestmark = pytest.mark.django_db
Configure = Callable[..., None]


def limited(per_second: float, burst: float, **values: Any) -> Endpoint:
    rate = {"per_second": per_second, "burst": burst}
    return EndpointFactory(rate_limit=rate, **{"state__window": 100, **values})


def backlog(endpoint: Endpoint, count: int, **values: Any) -> None:
    """Write due deliveries without events: nothing of them is sent in these tests."""
    last = Delivery.objects.order_by("-position").values_list("position", flat=True).first() or 0
    now = timezone.now() - timedelta(seconds=1)
    times = dict.fromkeys(("due_at", "occurred_at", "created_at", "started_at"), now)
    if count:
        first = Delivery.objects.create(
            endpoint=endpoint, event_id=-last - 1, position=last + 1, **{**times, **values}
        )
        copies(first, count - 1, event_id="event_id - n", position="position + n")


def take(endpoint: Endpoint) -> int:
    """Lease, and let what was claimed vanish as if it were delivered."""
    held = claim(endpoint)
    Delivery.objects.filter(pk__in=[job.id for job in held.jobs]).delete()
    return len(held.jobs)


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Stop the path's clock, and move it by hand."""
    from webhooks_app.pipeline import clock

    moment = [timezone.now() + timedelta(hours=1)]
    monkeypatch.setattr(clock, "translate", lambda _: moment[0])

    def advance(seconds: float) -> None:
        moment[0] += timedelta(seconds=seconds)

    return advance


def test_a_full_bucket_lets_a_burst_go_and_no_more(frozen: Callable[..., None]):
    endpoint = limited(2, 5)
    backlog(endpoint, 20)
    held = claim(endpoint)
    assert len(held.jobs) == 5
    assert endpoint.pk not in held.more
    assert held.later == {endpoint.pk: pytest.approx(0.5, abs=1e-5)}


@pytest.mark.once
@pytest.mark.parametrize(("per_second", "burst"), [(1, 1), (0.3, 2), (7, 7), (100 / 3, 10)])
def test_over_hours_neither_more_nor_less_than_the_rate(
    per_second: float, burst: float, frozen: Callable[..., None]
):
    """Woken when the lease says so it takes every token, and in no span more than rate x span + burst."""
    endpoint = limited(per_second, burst)
    rounds, spent, taken = 150, 0.0, []
    backlog(endpoint, 60)
    for _ in range(rounds):
        taken.append((spent, take(endpoint)))
        wait = wait_of(endpoint)
        frozen(wait)
        spent += wait
        backlog(endpoint, taken[-1][1])
    total = sum(count for _, count in taken)
    assert per_second * spent - 1 <= total <= per_second * spent + burst
    assert spent > rounds * 0.5 / per_second
    for start in range(0, rounds, 17):
        since = taken[start][0]
        upto = 0
        for at, count in taken[start:]:
            upto += count
            assert upto <= per_second * (at - since) + burst + 1e-6


def wait_of(endpoint: Endpoint) -> float:
    """Return in how many seconds the lease wants to be asked again."""
    EndpointState.objects.filter(pk=endpoint.pk).update(woken_until=None)
    later = claim(endpoint).later
    return later[endpoint.pk]


@pytest.mark.once
@pytest.mark.parametrize("every", [0.1, 0.7, 3.0, 11.0, 40.0])
def test_asking_too_early_or_too_late_gains_nothing(every: float, frozen: Callable[..., None]):
    """Up to two hours of leases at the wrong moments: fractions of tokens are kept, and none is made up."""
    rate, burst, span = 0.5, 4, 200 * every
    endpoint = limited(rate, burst)
    backlog(endpoint, 900)
    total = 0
    for _ in range(int(span / every)):
        total += take(endpoint)
        frozen(every)
    full = min(rate * span, int(span / every) * burst)
    assert full - 1 <= total <= rate * span + burst


def test_released_jobs_give_their_tokens_back(frozen: Callable[..., None]):
    endpoint = limited(1, 10)
    waiting(endpoint, 20)
    held = claim(endpoint)
    assert len(held.jobs) == 10
    assert not claim(endpoint).jobs
    send(held, stopping=True)()
    assert len(claim(endpoint).jobs) == 10


def test_what_is_given_back_never_overfills_the_bucket(frozen: Callable[..., None]):
    endpoint = limited(1, 10)
    waiting(endpoint, 30)
    held = claim(endpoint)
    frozen(7)
    send(held, stopping=True)()
    assert len(claim(endpoint).jobs) == 10


def test_a_failed_request_has_used_its_token(receiver: Receiver, frozen: Callable[..., None]):
    endpoint = limited(1, 3)
    waiting(endpoint, 3)
    receiver.always(endpoint, reply(500))
    send(claim(endpoint))()
    waiting(endpoint)
    assert not claim(endpoint).jobs


def test_suspects_that_are_left_for_later_use_no_token(frozen: Callable[..., None]):
    """One that killed workers goes alone; what was chosen beside it keeps its tokens."""
    endpoint = limited(0.001, 5)
    backlog(endpoint, 5)
    first = Delivery.objects.earliest("position")
    Delivery.objects.filter(pk=first.pk).update(lapses=2)
    assert [job.id for job in claim(endpoint).jobs] == [first.pk]
    assert len(claim(endpoint).jobs) == 4


def test_one_wake_is_pending_however_many_look(frozen: Callable[..., None]):
    """F19: hints do not breed."""
    endpoint = limited(0.3, 1)
    backlog(endpoint, 50)
    assert take(endpoint) == 1
    wakes = []
    for _ in range(40):
        held = claim(endpoint)
        assert not held.jobs
        wakes.append(dict(held.later))
        frozen(0.037)
    assert sum(bool(each) for each in wakes) <= 1
    state = EndpointState.objects.get()
    frozen(10)
    assert len(claim(endpoint).jobs) == 1
    assert EndpointState.objects.get().woken_until != state.woken_until


@pytest.mark.parametrize(
    ("per_second", "burst", "wait"),
    [
        (10, 1, 0.1),
        (10, 10, 0.1),
        (50, 1, 0.02),
        (50, 3, 0.06),
        (50, 50, 0.1),
        (300, 90, 0.1),
        (0.5, 9, 2),
    ],
)
def test_quick_rates_are_woken_for_a_handful_at_once(
    per_second: float, burst: float, wait: float, frozen: Callable[..., None]
):
    endpoint = limited(per_second, burst)
    backlog(endpoint, 110)
    while claim(endpoint).jobs:
        pass
    assert wait_of(endpoint) == pytest.approx(wait, abs=1e-4)


def test_no_limit_no_bucket():
    endpoint = EndpointFactory()
    backlog(endpoint, 3)
    claim(endpoint)
    assert EndpointState.objects.get().tokens is None
    assert not RateBucket.objects.exists()


@pytest.mark.parametrize("text", ['{"per_second": 0}', "[]", "not JSON"])
def test_a_limit_that_no_action_writes_is_none(text: str):
    from webhooks_app.pipeline.rates import resolve_rate

    assert resolve_rate(text) is None


def test_a_strict_lane_keeps_the_rate(receiver: Receiver, frozen: Callable[..., None]):
    """A chain is as long as there are tokens; the next begins with the next token."""
    endpoint = limited(2, 3, ordering="fifo")
    rows = waiting(endpoint, 8)
    held = claim(endpoint)
    assert units_of(held) == [[row.pk for row in rows[:3]]]
    assert endpoint.pk not in held.more
    assert held.later == {endpoint.pk: pytest.approx(0.5, abs=1e-5)}
    send(held)()
    sizes = [3]
    while Delivery.objects.filter(state="pending").exists():
        frozen(0.500_002)
        held = claim(endpoint)
        sizes.append(len(held.jobs))
        send(held)()
    assert sizes == [3, 1, 1, 1, 1, 1]
    assert receiver.ids() == ids_of(rows)
    check_books()


def test_what_a_failing_chain_did_not_send_gives_its_tokens_back(
    receiver: Receiver, frozen: Callable[..., None]
):
    endpoint = limited(1, 10, ordering="fifo", policy_overrides={"waits": [1], "jitter": 0})
    waiting(endpoint, 10)
    receiver.script(endpoint, reply(500))
    send(claim(endpoint))()
    assert EndpointState.objects.get().tokens == pytest.approx(9)


@pytest.mark.once
@pytest.mark.parametrize("burst", [1, 3])
def test_a_backlog_of_live_events_does_not_starve_retries(burst: int, frozen: Callable[..., None]):
    """F6: each priority has its share of the tokens, however few there are at a time."""
    endpoint = limited(1, burst)
    for priority in (0, 1, 2):
        backlog(endpoint, 300, priority=priority)
    sent: Counter[int] = Counter()
    for _ in range(300 // burst):
        held = claim(endpoint)
        rows = Delivery.objects.filter(pk__in=[job.id for job in held.jobs])
        sent.update(rows.values_list("priority", flat=True))
        rows.delete()
        frozen(burst)
    assert sum(sent.values()) == 300 // burst * burst
    assert 0.6 <= sent[0] / 300 <= 0.8
    assert 0.12 <= sent[1] / 300 <= 0.28
    assert 0.04 <= sent[2] / 300 <= 0.17


@pytest.mark.parametrize("turn", [0.0, 0.35, 0.999])
def test_however_short_the_tokens_cut_a_grant_it_is_fair(turn: float):
    picked = share(50, [["live"] * 60, ["retry"] * 60, ["bulk"] * 60], turn)
    for size in range(10, 51, 10):
        counts = Counter(picked[:size])
        assert abs(counts["live"] - 0.7 * size) <= 1
        assert abs(counts["retry"] - 0.2 * size) <= 1
        assert abs(counts["bulk"] - 0.1 * size) <= 1


TENANT_RATE = {"per_second": 10, "burst": 20}


def test_the_endpoints_of_a_tenant_share_its_bucket(configure: Configure, frozen: Callable[..., None]):
    configure(TENANT_RATE_LIMIT=TENANT_RATE)
    mine = EndpointFactory.create_batch(3, tenant_id="acme", state__window=100)
    other = EndpointFactory(tenant_id="globex", state__window=100)
    for endpoint in (*mine, other):
        backlog(endpoint, 40)
    held = claim(*mine, other)
    counts = Counter(job.endpoint_id for job in held.jobs)
    assert sum(counts[each.pk] for each in mine) == 20
    assert max(counts[each.pk] for each in mine) <= 7
    assert counts[other.pk] == 20
    assert set(RateBucket.objects.values_list("key", flat=True)) == {"tenant:acme", "tenant:globex"}


def test_endpoints_without_a_tenant_have_no_tenants_bucket(configure: Configure):
    configure(TENANT_RATE_LIMIT={"per_second": 1, "burst": 1})
    endpoint = EndpointFactory(tenant_id=None, state__window=100)
    backlog(endpoint, 10)
    assert len(claim(endpoint).jobs) == 10


def test_endpoints_at_one_host_share_its_bucket(configure: Configure, frozen: Callable[..., None]):
    configure(HOST_RATE_LIMIT={"per_second": 1, "burst": 6})
    urls = ["https://Hooks.example/a", "https://hooks.example:8443/b", "https://hooks.example./c?d=e"]
    same = [EndpointFactory(url=url, state__window=100) for url in urls]
    other = EndpointFactory(url="https://hooks.example.org/", state__window=100)
    for endpoint in (*same, other):
        backlog(endpoint, 9)
    counts = Counter(job.endpoint_id for job in claim(*same, other).jobs)
    assert sum(counts[each.pk] for each in same) == 6
    assert counts[other.pk] == 6


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/x", "a.example"),
        ("https://A.example.:444?x", "a.example"),
        ("https://user:secret@a.example/", "a.example"),
        ("https://203.0.113.7:8443/x", "203.0.113.7"),
        ("https://[2001:DB8::7]:8443/x", "[2001:db8::7]"),
        ("https://[2001:db8::8]/x", "[2001:db8::8]"),
        ("https://a.example#x", "a.example"),
    ],
)
def test_hosts(url: str, host: str):
    assert host_of(url) == host


def test_every_bucket_has_its_say(configure: Configure, frozen: Callable[..., None]):
    configure(
        TENANT_RATE_LIMIT={"per_second": 1, "burst": 9}, HOST_RATE_LIMIT={"per_second": 0.1, "burst": 4}
    )
    endpoint = limited(5, 6, tenant_id="acme")
    backlog(endpoint, 20)
    held = claim(endpoint)
    assert len(held.jobs) == 4
    assert held.later == {endpoint.pk: pytest.approx(10, abs=1e-4)}
    assert EndpointState.objects.get().tokens == pytest.approx(2)
    assert RateBucket.objects.get(key="tenant:acme").tokens == pytest.approx(5)


def test_a_shared_bucket_gets_back_what_was_not_sent(configure: Configure, frozen: Callable[..., None]):
    configure(TENANT_RATE_LIMIT=TENANT_RATE, HOST_RATE_LIMIT=TENANT_RATE)
    endpoint = EndpointFactory(state__window=100)
    waiting(endpoint, 30)
    send(claim(endpoint), stopping=True)()
    assert set(RateBucket.objects.values_list("tokens", flat=True)) == {20.0}
    assert len(claim(endpoint).jobs) == 20


def test_those_who_wait_for_one_bucket_are_not_all_woken_for_one_token(
    configure: Configure, frozen: Callable[..., None]
):
    configure(TENANT_RATE_LIMIT={"per_second": 10, "burst": 1})
    endpoints = EndpointFactory.create_batch(5, tenant_id="acme", state__window=100)
    for endpoint in endpoints:
        backlog(endpoint, 5)
    waits = sorted(claim(*endpoints).later.values())
    assert waits == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=1e-4)


def test_a_lease_that_waited_for_the_lock_does_not_turn_the_clock_back(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
):
    """Its time is that of its own state rows' lock: another may have used the bucket at a later moment."""
    configure(TENANT_RATE_LIMIT={"per_second": 10, "burst": 10})
    endpoint = EndpointFactory(tenant_id="acme", state__window=100)
    backlog(endpoint, 100)
    base = timezone.now() + timedelta(hours=1)
    from webhooks_app.pipeline import clock

    taken = 0
    for _ in range(20):
        for ahead in (1.0, 0.5):
            moment = base + timedelta(seconds=ahead)
            monkeypatch.setattr(clock, "translate", lambda _, moment=moment: moment)
            taken += len(claim(endpoint, senders=1).jobs)
    assert taken == 10


def run_rivals(shares: list[list[Endpoint]], seconds: float) -> tuple[int, float]:
    """Let each worker send to its endpoints; return how many requests were made, and how long it took."""
    stop, started = threading.Event(), time.monotonic()

    def work(endpoints: list[Endpoint]) -> int:
        count = 0
        while not stop.is_set():
            held = claim(*endpoints)
            if held.jobs:
                count += len(insist(send(held)).attempts)
            elif time.monotonic() - started > seconds:
                stop.set()
        return count

    counts = in_threads(*[partial(work, mine) for mine in shares])
    return sum(counts), time.monotonic() - started


@committed
@pytest.mark.pg
@pytest.mark.parametrize("kind", ["TENANT_RATE_LIMIT", "HOST_RATE_LIMIT"])
def test_eight_workers_share_a_bucket(kind: str, receiver: Receiver, configure: Configure):
    """Each has an endpoint of its own: nothing but the bucket's lock keeps them apart."""
    configure(**{kind: {"per_second": 40, "burst": 20}})
    endpoints = [
        EndpointFactory(tenant_id="acme", url=f"https://one.example/{n}", state__window=100) for n in range(8)
    ]
    emit_for("acme", 60)
    inline.fan_out()
    made, seconds = run_rivals([[each] for each in endpoints], 1.5)
    # The exact number is told with a frozen clock; here a busy machine may leave tokens unused.
    assert 40 * 1.5 / 2 + 20 <= made <= 40 * seconds + 20
    assert Delivery.objects.filter(state="delivered").count() == made == len(receiver.requests)


@committed
@pytest.mark.pg
def test_eight_workers_with_many_buckets_never_lock_each_other_up(
    receiver: Receiver, configure: Configure, caplog: pytest.LogCaptureFixture
):
    """Whatever is leased together, whoever makes a bucket first, whoever gives tokens back."""
    rate = {"per_second": 2_000, "burst": 5}
    configure(TENANT_RATE_LIMIT=rate, HOST_RATE_LIMIT=rate)
    endpoints = [
        EndpointFactory(tenant_id=f"t{n % 3}", url=f"https://{n % 4}.example/", state__window=100)
        for n in range(24)
    ]
    for tenant in ("t0", "t1", "t2"):
        emit_for(tenant, 60)
    inline.fan_out()

    def work(mine: list[Endpoint]) -> None:
        deadline = time.monotonic() + 25
        while Delivery.objects.filter(endpoint__in=mine, state="pending").exists():
            assert time.monotonic() < deadline, "it does not come to an end"
            insist(send(claim(*mine), stopping=random.random() < 0.2))

    with caplog.at_level("INFO", logger="webhooks_app.pipeline"):
        in_threads(*[partial(work, endpoints[place::8]) for place in range(8)])
    # A deadlock every few leases would be dozens; a busy machine may be late once.
    assert caplog.text.count("repeating") < 5
    check_books()


@committed
@pytest.mark.pg
def test_eight_workers_keep_one_endpoints_rate(receiver: Receiver):
    endpoint = limited(50, 25)
    emit_for(endpoint, 400)
    inline.fan_out()
    made, seconds = run_rivals([[endpoint]] * 8, 1.5)
    assert 50 * 1.5 / 2 + 25 <= made <= 50 * seconds + 25


def test_half_a_token_is_none(frozen: Callable[..., None]):
    endpoint = limited(1, 1)
    backlog(endpoint, 5)
    assert take(endpoint) == 1
    frozen(0.99)
    assert take(endpoint) == 0
    frozen(0.01)
    assert take(endpoint) == 1


def test_tokens_survive_what_a_record_writes(receiver: Receiver, frozen: Callable[..., None]):
    endpoint = limited(1, 10)
    waiting(endpoint, 4)
    send(claim(endpoint))()
    assert EndpointState.objects.get().tokens == pytest.approx(6)


def test_a_bucket_of_the_future_gives_nothing_for_it():
    from webhooks_app.core.rate import available

    now = datetime(2026, 10, 1, tzinfo=UTC)
    assert available(Rate(10, 10), 3.0, now + timedelta(seconds=5), now) == 3.0
