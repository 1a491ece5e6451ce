"""Everything breaks at random under load; afterwards nothing is lost, invented or numbered twice.

CHAOS_SECONDS   how long to break things (default 60)
CHAOS_SEED      repeats the order of acts of an earlier run, though not its timing
"""

import os
import random
import sys
import time

from tests.chaos.monkey import Monkey
from tests.e2e.broker import Broker
from tests.e2e.invariants import check, rows
from tests.e2e.processes import Process
from tests.e2e.receiver import Reply
from tests.e2e.stage import QUICK

# A claim of the stage lasts three seconds; a process may be late by a few more on a busy machine.
EXPLAINS_SECONDS = 8.0


class Emitter(Process):
    """A web process that emits."""

    name = "emitter"

    def command(self):
        return [sys.executable, "-m", "tests.e2e.emitter", "0.05"]

    def confirmed(self):
        """Return the ids of the events whose commit the process saw; a line may be cut off by its death."""
        return {word for line in self.text().splitlines() for word in line.split() if len(word) == 30}


def scripts_for(chance):
    """Return how the receivers behave: quick, slow, failing, hanging, hanging up, and asking for silence."""
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
    }


def test_everything_breaks(make_stage, own_redis, own_postgres):
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    seconds = float(os.environ.get("CHAOS_SECONDS") or 60)
    chance = random.Random(seed)
    stage = make_stage(Broker(own_redis.url), postgres=own_postgres.url)
    scripts = scripts_for(random.Random(seed))
    for name, script in scripts.items():
        stage.receiver.on(name, script)
        limits = {"max_in_flight": 3} if name == "narrow" else {}
        stage.endpoint(name, policy_overrides={**QUICK, "waits": [1] * 29}, **limits)
    workers = [stage.worker(concurrency=2, wait=False).supervise() for _ in range(3)]
    for worker in workers:
        worker.await_ready()
    emitters = [Emitter(stage.folder, stage.choice) for _ in range(2)]
    for emitter in emitters:
        stage.keep(emitter)
        emitter.start(wait=False).supervise()
    stage.tick(1.0)
    monkey = Monkey(chance, workers, emitters, own_redis, own_postgres)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        monkey.act()
    for emitter in emitters:
        emitter.close()
    print(f"\nCHAOS_SEED={seed}, {seconds:g} s, acts: {dict(monkey.acts)}")
    stage.settle(120)
    report_on(stage, monkey, emitters, len(scripts))


def report_on(stage, monkey, emitters, endpoints):
    committed = {row[0] for row in rows("SELECT event_id FROM webhooks_app_outboxentry")}
    confirmed = set().union(*(emitter.confirmed() for emitter in emitters))
    assert confirmed
    assert confirmed <= committed, "a confirmed event is not there"
    report = check(stage.receiver.posts, committed, endpoints=endpoints, rude=["rude"])
    print(
        f"{len(committed)} events, {report.deliveries} deliveries, {report.attempts} attempts, "
        f"{report.posts} requests, {report.doubled} of them unrecorded; "
        f"peak of the narrow endpoint: {stage.receiver.peak['/narrow']} of 3"
    )
    unexplained = [post for post in report.unrecorded if not explained(post.at, monkey.spans)]
    assert unexplained == [], "requests were repeated although nothing had happened"
    for worker in stage.workers:
        for words in ("Traceback", "are sent again"):
            print(f"{worker.log.name}: {worker.text().count(words)} x {words!r}")


def explained(moment, spans):
    """Whether something broke while the claim of a request made at this moment lasted."""
    return any(start - 1 <= moment + EXPLAINS_SECONDS and moment - 1 <= end for start, end in spans)
