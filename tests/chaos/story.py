"""The random suite: web processes emit, workers deliver, a monkey breaks things, then all is checked."""

import os
import random
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from scripts.services import Postgres, Redis
from tests.chaos.monkey import WEIGHTS, Monkey
from tests.e2e.invariants import check, check_order, rows
from tests.e2e.processes import Process
from tests.e2e.receiver import Post, Reply
from tests.e2e.stage import QUICK, Stage

# A claim of the stage lasts three seconds; a process may be late by a few more on a busy machine.
EXPLAINS_SECONDS = 8.0
RATE, BURST = 200, 50


class Emitter(Process):
    """A web process that emits."""

    name = "emitter"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.e2e.emitter", "0.1"]

    def confirmed(self) -> set[str]:
        """Return the ids of the events whose commit the process saw; a line may be cut off by its death."""
        return {word for line in self.text().splitlines() for word in line.split() if len(word) == 30}


def seed() -> int:
    """Return CHAOS_SEED, or a new one: it repeats the order of acts, though not their timing."""
    return int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))


def scripts_for(chance: random.Random) -> dict[str, Callable[[Post], Reply]]:
    """Return how the receivers behave: quick, slow, failing, hanging, hanging up, and asking for silence."""
    requests = count()
    return {
        "quick": lambda post: Reply(),
        "slow": lambda post: Reply(delay=0.4),
        "failing": lambda post: Reply(500 if chance.random() < 0.3 else 200),
        "hanging": lambda post: Reply(delay=2.0 if chance.random() < 0.05 else 0.0),
        "rude": lambda post: Reply(drop=chance.random() < 0.2),
        "busy": lambda post: (
            Reply(429, headers={"Retry-After": "1"}) if chance.random() < 0.02 else Reply(delay=0.01)
        ),
        "narrow": lambda post: Reply(delay=0.05),
        "ordered": lambda post: Reply(500 if chance.random() < 0.005 else 200),
        "by_owner": lambda post: Reply(500 if chance.random() < 0.02 else 200),
        "tripping": lambda post: Reply(500 if next(requests) % 40 < 4 else 200),
        "limited": lambda post: Reply(),
    }


def fields_of(name: str) -> dict[str, Any]:
    """Return how an endpoint is registered."""
    policy = {**QUICK, "waits": [1] * 29}
    breaker = {"failures": 3, "open_seconds": 1, "probe_seconds": 1, "probes": 2, "probes_to_half_open": 0}
    fields = {
        "narrow": {"max_in_flight": 3},
        "ordered": {"ordering": "fifo", "max_in_flight": 1},
        "by_owner": {"ordering": "subject"},
        "limited": {"rate_limit": {"per_second": RATE, "burst": BURST}},
        "tripping": {"policy_overrides": {**policy, "breaker": {**breaker, "successes_to_close": 1}}},
    }
    return {"policy_overrides": policy, **fields.get(name, {})}


def tell(
    stage: Stage,
    redis: Redis,
    postgres: Postgres,
    *,
    seconds: float,
    workers: int,
    weights: Mapping[str, int] = WEIGHTS,
    **options: Any,
) -> None:
    """Break things for `seconds`, let everything settle, check it.

    Args:
        stage: made with these two servers, which are killed and frozen.
        workers: how many; `options` go to each.
        weights: the acts of the monkey and how often they are chosen.
    """
    number = seed()
    endpoints = scripts_for(random.Random(number))
    for name, script in endpoints.items():
        stage.receiver.on(name, script)
        stage.endpoint(name, **fields_of(name))
    started = [stage.worker(wait=False, **options) for _ in range(workers)]
    for worker in started:
        worker.await_ready().supervise()
    emitters = [_emitter(stage) for _ in range(2)]
    stage.tick(1.0)
    monkey = Monkey(random.Random(number), [*started], [*emitters], redis, postgres, weights)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        monkey.act()
    for emitter in emitters:
        emitter.close()
    print(f"\nCHAOS_SEED={number}, {seconds:g} s, acts: {dict(monkey.acts)}")
    stage.settle(120)
    _judge(stage, monkey, set().union(*(emitter.confirmed() for emitter in emitters)), len(endpoints))


def _emitter(stage: Stage) -> Emitter:
    emitter = Emitter(stage.folder, stage.choice)
    stage.keep(emitter)
    emitter.start(wait=False).supervise()
    return emitter


def _judge(stage: Stage, monkey: Monkey, confirmed: set[str], endpoints: int) -> None:
    committed = {row[0] for row in rows("SELECT event_id FROM webhooks_app_outboxentry")}
    assert confirmed
    assert confirmed <= committed, "a confirmed event is not there"
    report = check(stage.receiver.posts, committed, endpoints=endpoints, rude=["rude"])
    print(
        f"{len(committed)} events, {report.deliveries} deliveries, {report.attempts} attempts, "
        f"{report.posts} requests, {report.doubled} of them unrecorded; "
        f"peak of the narrow endpoint: {stage.receiver.peak['/narrow']} of 3"
    )
    unexplained = [post for post in report.unrecorded if not _explained(post.at, monkey.spans)]
    assert unexplained == [], "requests were repeated although nothing had happened"
    # A process that froze between its last check and the request may overlap with its successor.
    assert stage.receiver.peak["/narrow"] <= 3 + 3 * (monkey.acts["sleep"] + monkey.acts["nap"])
    _check_sequences()
    assert check_order(stage.receiver, "ordered") == 1
    assert check_order(stage.receiver, "by_owner") > 1
    _check_rate([post.at for post in stage.receiver.at("limited")], monkey)


def _check_rate(moments: Sequence[float], monkey: Monkey) -> None:
    """Over any ten seconds; tokens are taken with the claim, so what is frozen after it comes late."""
    late = BURST * (1 + monkey.acts["sleep"] + monkey.acts["nap"])
    for start, at in enumerate(moments):
        within = bisect_right(moments, at + 10.0) - start
        assert within <= 10 * RATE + 2 * BURST + late


def _check_sequences() -> None:
    """Rolled back events leave no gap in their owner's numbers."""
    wrong = rows(
        """SELECT owner_id, count(*), max(sequence) FROM webhooks_app_outboxentry WHERE owner_id IS NOT NULL
        GROUP BY owner_id HAVING count(*) <> max(sequence) OR min(sequence) <> 1"""
    )
    assert wrong == [], "an owner's numbers have gaps"


def _explained(moment: float, spans: list[tuple[float, float]]) -> bool:
    """Whether something broke while the claim of a request made at this moment lasted."""
    return any(start - 1 <= moment + EXPLAINS_SECONDS and moment - 1 <= end for start, end in spans)
