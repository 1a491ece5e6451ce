"""What the lease holds back, with real workers: breakers, limits, pauses, suspensions, slow endpoints.

What is held uses no attempt, and leaves by itself once its gate opens.
"""

import threading
import time

import pytest

from tests.e2e.broker import redis_broker
from tests.e2e.invariants import check
from tests.e2e.receiver import Reply
from tests.e2e.settings import ALIAS
from tests.e2e.stage import QUICK
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.models import Tenant
from webhooks_app.pipeline import clock

BREAKER = {"failures": 3, "open_seconds": 1, "probe_seconds": 1, "probes": 2, "successes_to_close": 1}
SLOW_QUEUE = "webhooks.slow"


@pytest.mark.parametrize("good_probes", [0, 2], ids=["half-open by time", "half-open by probes"])
def test_a_breaker_holds_what_comes_while_the_receiver_is_down(stage, good_probes):
    up = threading.Event()
    stage.receiver.on("a", lambda post: Reply() if up.is_set() else Reply(500, delay=0.2))
    breaker = {**BREAKER, "probes_to_half_open": good_probes}
    stage.endpoint(policy_overrides={**QUICK, "breaker": breaker})
    stage.crew("one", "two")
    stage.tick(0.1)
    before = stage.emit(8)
    stage.until(lambda: breaker_of(stage) != "closed", 10, "the breaker opened")
    held = stage.emit(20)
    stage.until(lambda: len(probes(stage)) >= 3, 10, "probes failed in two rounds")
    assert not any(map(stage.seen, held)), "one was sent while it was open"
    up.set()
    stage.settle()
    check(stage.receiver.posts, before + held, endpoints=1)
    assert breaker_of(stage) == "closed"
    tried_in_vain = "SELECT DISTINCT number FROM webhooks_app_attempt WHERE error <> '' AND trigger = %s"
    assert stage.rows(tried_in_vain, "schedule") == [(1,)], "a retry left while it was open"
    used = """SELECT DISTINCT d.attempts, d.step FROM webhooks_app_delivery d
        JOIN webhooks_app_event e ON e.id = d.event_id WHERE e.public_id = ANY(%s)"""
    assert stage.rows(used, held) == [(1, 0)], "what was held used an attempt"
    moments = [post.at for post in probes(stage)]
    rounds = zip(moments, moments[BREAKER["probes"] :], strict=False)
    assert all(later - earlier > 0.95 for earlier, later in rounds), "more probes than a round may have"


def breaker_of(stage):
    return stage.value("SELECT breaker FROM webhooks_app_endpointstate")


def probes(stage):
    """Return the recorded requests that were probes, in order of arrival."""
    found = set(stage.rows("SELECT event_id, number FROM webhooks_app_attempt WHERE trigger = 'probe'"))
    return [post for post in list(stage.receiver.posts) if (post.event_id, post.attempt) in found]


def test_a_rate_is_kept_by_two_workers_together(stage):
    rate, burst = 40, 10
    stage.endpoint(rate_limit={"per_second": rate, "burst": burst})
    stage.crew("one", "two")
    stage.tick()
    started = time.monotonic()
    events = stage.emit_many(100)
    stage.settle()
    assert check(stage.receiver.posts, events, endpoints=1).attempts == 100
    for number, post in enumerate(stage.receiver.posts, 1):
        assert number <= burst + rate * (post.at - started), "too many"
    lasted = stage.receiver.posts[-1].at - started
    assert lasted < 2 * (100 - burst) / rate, "too few"
    assert len({post.headers["user-agent"] for post in stage.receiver.posts}) == 2


def test_paused_and_suspended_ones_send_nothing_and_then_everything(stage):
    paused = stage.endpoint("paused", tenant="t")
    stage.endpoint("suspended", tenant="u")
    stage.endpoint("free", tenant="v")
    pause(stage.actor, paused)
    tenants = Tenant.objects.using(ALIAS)
    tenants.create(id="u", suspended_at=clock.db_now(ALIAS))
    stage.choice.constants["webhooks_app.pipeline.engine:TICK_SECONDS"] = 60.0
    stage.crew("one", "two")
    ticker = stage.tick()
    events = [event for tenant in "tuv" for event in stage.emit(10, tenant=tenant)]
    stage.until(lambda: stage.receiver.count("free") == 10 and stage.open() == 20, 10, "the free one got its")
    seconds = int(clock.db_now(ALIAS).timestamp())
    stage.until(lambda: last_tick(stage) >= seconds + 2, 10, "ticks have looked at what waits")
    assert {post.path for post in stage.receiver.posts} == {"/free"}
    ticker.stop()
    resume(stage.actor, paused)
    stage.until(lambda: stage.receiver.count("paused") == 10, 3, "what was paused left at once")
    stage.tick()
    tenants.filter(id="u").update(suspended_at=None)
    stage.until(lambda: stage.receiver.count("suspended") == 10, 3, "the next tick found the suspended")
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1)
    assert (report.posts, report.attempts) == (30, 30)


def last_tick(stage):
    """Return the second of the last tick, by the database's clock; 0 before the first."""
    return stage.value("SELECT COALESCE(max(value), 0) FROM webhooks_app_pipelinelock WHERE name = 'tick'")


def test_slow_endpoints_have_a_worker_of_their_own_while_it_lives(make_stage, redis_url):
    """Known as slow, it is served there alone; when nobody serves that queue, the others do."""
    stage = make_stage(redis_broker(redis_url), SLOW_QUEUE_NAME=SLOW_QUEUE)
    # Far above what a busy machine makes of a quick answer: the first one alone decides.
    stage.choice.constants["webhooks_app.pipeline.gates:SLOW_MS"] = 400
    stage.choice.constants["webhooks_app.pipeline.tick:PATIENCE"] = 2.0
    stage.receiver.on("slow", Reply(delay=0.6))
    for name in ("slow", "quick"):
        stage.endpoint(name)
    special = stage.worker(name="special", queue=SLOW_QUEUE, concurrency=1, wait=False)
    stage.crew("usual")
    special.await_ready()
    stage.tick()
    unknown = stage.emit(1)
    stage.settle()
    assert senders(stage, "slow", unknown) == {"usual"}
    # In one transaction: a worker that is busy fans out, and delivers, what it finds waiting.
    known = stage.emit_many(10)
    stage.settle()
    assert senders(stage, "slow", known) == {"special"}
    special.kill()
    left = stage.emit(3)
    stage.settle()
    assert senders(stage, "slow", left) == {"usual"}
    assert senders(stage, "quick", unknown + known + left) == {"usual"}
    assert check(stage.receiver.posts, unknown + known + left, endpoints=2).posts == 28


def senders(stage, name, events):
    """Return the workers that sent these events to path `/name`."""
    return {post.headers["user-agent"] for post in stage.receiver.at(name) if post.event_id in events}


def test_a_tenants_one_event_does_not_wait_for_anothers_twenty_thousand(stage):
    stage.receiver.on("many", Reply(delay=0.02))
    stage.endpoint("many", tenant="a")
    one = stage.endpoint("one", tenant="b")
    stage.emit_many(20_000, tenant="a")
    for name in ("one", "two"):
        stage.worker(wait=False, name=name, concurrency=1)
    stage.until(lambda: undispatched(stage) < 20_000, 20, "the workers have begun")
    left = undispatched(stage)
    [event] = stage.emit(1, tenant="b")
    stage.until(lambda: stage.seen(event), 10, "the other tenant's event arrived")
    ahead = stage.value(
        """SELECT count(*) FROM webhooks_app_delivery WHERE position < (SELECT position
        FROM webhooks_app_delivery WHERE endpoint_id = %s)""",
        one.pk,
    )
    assert left > 10_000
    assert ahead < 20_000 - left / 2, "its turn in the fan-out came after most of the others"
    assert stage.open() > 10_000, "it was sent after most of the others"


def undispatched(stage):
    """Return how many events wait for fan-out."""
    return stage.value("SELECT count(*) FROM webhooks_app_outboxentry WHERE dispatched_at IS NULL")


def test_two_hundred_failures_at_once_disable_once(make_stage, redis_url):
    """From two workers, which record in turn what they sent at the same time."""
    stage = make_stage(redis_broker(redis_url), MAX_SENDER_THREADS=100)
    gate = threading.Event()
    stage.receiver.on("a", Reply(500, gate=gate))
    stage.endpoint(max_in_flight=200, policy_overrides={**QUICK, "total_timeout": 20.0})
    stage.rows(
        """UPDATE webhooks_app_endpointstate SET "window" = 200,
        first_failure_at = now() - interval '2 days', failing_from = now() - interval '2 days'"""
    )
    events = stage.emit_many(200)
    stage.crew("one", "two")
    stage.tick()
    stage.until(lambda: stage.receiver.in_flight["/a"] == 200, 15, "two hundred requests are open")
    gate.set()
    stage.settle()
    report = check(stage.receiver.posts, events, endpoints=1, ends=("dead_lettered",))
    assert (report.posts, report.attempts) == (200, 200)
    assert senders(stage, "a", events) == {"one", "two"}
    told = "SELECT type, count(*) FROM webhooks_app_event WHERE type LIKE 'webhook.%%' GROUP BY type"
    assert stage.rows(told) == [("webhook.disabled", 1)]
    noted = "SELECT action, count(*) FROM webhooks_app_auditentry WHERE actor_kind = 'system' GROUP BY action"
    assert dict(stage.rows(noted)).pop("webhook.disabled") == 1
