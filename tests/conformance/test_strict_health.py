"""The policy `strict`, line by line: breaker, automatic disabling, and who hears of it.

Each docstring says in our own words which rule it checks.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import standardwebhooks

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.driving import SECRET, now
from tests.conformance.walking import OK, OOPS, Walk, attempts_of, audited, heard, states, told
from tests.net.servers import reply
from webhooks_app.actions.enable import enable
from webhooks_app.actions.test_send import test_send as send_test
from webhooks_app.models import Attempt, Delivery, EndpointState, Partner, Tenant
from webhooks_app.signals import breaker_changed, endpoint_recovered, endpoint_warned

GONE = reply("410 Gone", b"")


@pytest.fixture
def signalled() -> Iterator[list[tuple[str, str]]]:
    """What the signals of health said, in their order."""
    seen: list[tuple[str, str]] = []

    def of(name: str) -> Any:
        def listen(**values: Any) -> None:
            seen.append((values.get("state", name), values["reason"]))

        return listen

    signals = {"breaker": breaker_changed, "recovered": endpoint_recovered, "warned": endpoint_warned}
    listeners = {name: of(name) for name in signals}
    for name, signal in signals.items():
        signal.connect(listeners[name])
    yield seen
    for name, signal in signals.items():
        signal.disconnect(listeners[name])


def open_breaker(walk: Walk, **values: Any) -> list[Delivery]:
    """Let ten deliveries fail in a row, whose retries are far away; return them."""
    walk.subscribe("strict", {"waits": [86_000], "jitter": 0.0}, **values)
    walk.consumer.always = OOPS
    failed = walk.emit(10)
    assert walk.breaker == "open"
    return failed


def test_ten_failures_in_a_row_open_it(walk: Walk):
    """Breaker: it opens on consecutive failures, the tenth of them; a success in between starts anew."""
    walk.subscribe("strict")
    walk.consumer.answer(*[OOPS] * 9, OK, *[OOPS] * 9)
    walk.emit(19)
    assert (walk.breaker, walk.state.consecutive_failures) == ("closed", 9)
    walk.consumer.answer(OOPS)
    walk.emit()
    assert (walk.breaker, walk.state.breaker_error) == ("open", "status_5xx")


@pytest.mark.parametrize("status", ["404 Nothing", "302 Found", "500 Oops", "503 Busy"])
def test_every_kind_of_failure_counts(walk: Walk, status: str):
    """Breaker: whatever is no 2xx is a failure, also one that is final for its message."""
    walk.subscribe("strict")
    walk.consumer.always = reply(status, b"")
    walk.emit(10)
    assert walk.breaker == "open"


def test_too_many_at_once_counts_once(walk: Walk):
    """Breaker: 429s to one burst ask for a rest, not for a breaker; ten times in a row they are failures."""
    walk.subscribe("strict", {"waits": [86_000], "jitter": 0.0})
    walk.consumer.always = reply("429 Busy", b"")
    EndpointState.objects.update(window=100)
    walk.emit(40)
    assert (walk.breaker, walk.state.consecutive_failures) == ("closed", 40)
    walk.wait(seconds=2)
    walk.emit()
    assert walk.breaker == "open"


def test_while_open_events_are_held_not_dropped(walk: Walk):
    """Breaker: held deliveries wait as they are; no request, no attempt, nothing of their schedule."""
    open_breaker(walk)
    before = list(Delivery.objects.order_by("pk").values())
    held = walk.emit(5)
    walk.wait(seconds=29)
    assert walk.requests == 10
    assert [(each.attempts, each.step, each.state) for each in held] == [(0, 0, "pending")] * 5
    assert list(Delivery.objects.order_by("pk").values())[:10] == before


def test_after_thirty_seconds_a_few_probes_go_through(walk: Walk):
    """Breaker: half-open it lets at most three probes through, the oldest that are held."""
    open_breaker(walk)
    held = walk.emit(5)
    walk.wait(seconds=31)
    assert walk.requests == 13
    probes = Attempt.objects.filter(trigger="probe")
    assert {each.delivery_id for each in probes} == {each.pk for each in held[:3]}
    assert walk.breaker == "open"


def test_a_probe_that_fails_costs_its_delivery_nothing(walk: Walk):
    """Breaker: time spent open uses no attempts; a failed probe is on record, and moves no schedule."""
    open_breaker(walk)
    (held,) = walk.emit()
    walk.wait(seconds=31)
    held.refresh_from_db()
    (probe,) = attempts_of(held)
    assert (probe.trigger, probe.status, probe.next_attempt_at) == ("probe", "failed", None)
    assert (held.state, held.step, held.attempts) == ("pending", 0, 1)
    assert held.due_at is not None
    assert held.due_at <= now() + timedelta(seconds=60), "it stands back for two rounds at most"


def test_one_success_closes_it_and_everything_leaves(walk: Walk):
    """Breaker: it closes on success; what was held is delivered, each event once."""
    failed = open_breaker(walk)
    held = walk.emit(20)
    walk.wait(seconds=31)
    walk.consumer.always = OK
    walk.wait(seconds=31)
    assert (walk.breaker, walk.state.consecutive_failures) == ("closed", 0)
    assert states(held) == ["delivered"] * 20
    assert states(failed) == ["pending"] * 10, "their retries are not due yet"
    assert walk.requests == 10 + 3 + 20


def test_a_failed_probe_opens_it_for_another_thirty_seconds(walk: Walk):
    """Breaker: one failure while half-open opens it again, for the whole time."""
    open_breaker(walk)
    walk.emit(4)
    walk.wait(seconds=31)
    walk.consumer.always = OK
    walk.wait(seconds=28)
    assert (walk.requests, walk.breaker) == (13, "open")
    walk.wait(seconds=3)
    assert walk.breaker == "closed"


def test_with_nothing_to_send_it_asks_with_a_signed_ping(walk: Walk):
    """Breaker: where nothing is held it sends an event of its own, signed, which is no delivery."""
    endpoint = open_breaker(walk)[0].endpoint
    walk.consumer.always = OK
    walk.wait(seconds=31)
    assert (walk.breaker, walk.requests) == ("closed", 11)
    request = walk.consumer.requests[-1]
    said = standardwebhooks.Webhook(SECRET).verify(request.body, request.headers)
    assert (said["type"], said["data"]) == ("webhook.ping", {"webhook_id": endpoint.public_id})
    ping = Attempt.objects.get(event_type="webhook.ping")
    assert (ping.delivery_id, ping.trigger, ping.status) == (None, "probe", "succeeded")
    assert walk.state.delivered == 0


def test_changes_are_audited_and_signalled(walk: Walk, signalled: list[tuple[str, str]]):
    """Breaker: it is recorded and told when it opens and closes; the rounds between are in the attempts."""
    open_breaker(walk)
    walk.wait(seconds=31)
    walk.consumer.always = OK
    walk.wait(seconds=31)
    kinds = ("webhook.breaker_opened", "webhook.breaker_half_opened", "webhook.breaker_closed")
    opened, _, closed = ((kind, "status_5xx") for kind in kinds)
    assert audited(*kinds) == [opened, closed]
    assert signalled == [
        ("open", "status_5xx"),
        ("closed", "status_5xx"),
        ("recovered", "breaker_closed"),
    ]


def test_a_recovery_is_told(walk: Walk):
    """Events: `webhook.recovered` when the breaker has closed, to the tenant's others as well."""
    open_breaker(walk)
    other = make_endpoint(url=walk.consumer.url, events=["webhook.recovered"])
    walk.consumer.always = OK
    walk.wait(seconds=31)
    (event,) = told("webhook.recovered")
    assert heard(event) == {other.pk}
    assert json.loads(bytes(event.body))["data"]["reason"] == "breaker_closed"


def test_a_test_moves_nothing(walk: Walk):
    """B030: tests by hand are outside of all accounting, good ones and bad ones."""
    endpoint = open_breaker(walk)[0].endpoint
    before = EndpointState.objects.values().get()
    for answer in (OK, *[OOPS] * 10, GONE):
        walk.consumer.answer(answer)
        walk.act(lambda: send_test(OPERATOR, endpoint))
    assert EndpointState.objects.values().get() == before
    assert Attempt.objects.filter(trigger="test").count() == 12
    walk.wait(seconds=29)
    assert walk.breaker == "open"


def test_an_expired_one_is_no_probe(walk: Walk):
    """Breaker: its window goes on while a delivery is held; past it, it ends and something else asks."""
    open_breaker(walk)
    late = walk.emit(expires_at=now() + timedelta(seconds=20))[0]
    walk.consumer.always = OK
    walk.wait(seconds=31)
    late.refresh_from_db()
    assert (late.state, late.attempts, walk.breaker) == ("expired", 0, "closed")


def test_a_breaker_may_be_switched_off(walk: Walk):
    """Breaker: an endpoint may do without, or have another threshold."""
    walk.subscribe("strict", {"breaker": False})
    walk.consumer.always = OOPS
    walk.emit(30)
    assert (walk.breaker, walk.requests) == ("closed", 30)
    walk.subscribe("strict", {"breaker": {"failures": 2}})
    walk.emit(2)
    assert walk.breaker == "open"


def fail(walk: Walk) -> None:
    """Let one message fail for good now."""
    walk.consumer.always = reply("404 Nothing", b"")
    walk.emit()


def quiet(walk: Walk, overrides: dict[str, Any] | None = None) -> None:
    """Subscribe an endpoint that nothing but events asks anything: no breaker, so no pings."""
    walk.subscribe("strict", {"breaker": False, **(overrides or {})})


def test_five_days_of_failing_disable_it(walk: Walk):
    """Auto-disable: an endpoint that fails continuously for five days is disabled, breaker and all."""
    walk.subscribe("strict")
    walk.consumer.always = OOPS
    walk.emit(10)
    hours = 0.0
    while walk.state.enabled:
        walk.wait(hours=1)
        hours += 1
        assert hours < 200
    assert 119 <= hours <= 121
    assert walk.state.disabled_reason == "failing"
    assert [json.loads(bytes(each.body))["data"]["reason"] for each in told("webhook.disabled")] == [
        "failing"
    ]


def test_it_is_warned_at_seventy_two_hours(walk: Walk, signalled: list[tuple[str, str]]):
    """Auto-disable: the tenant is warned once, 72 h after the first failure."""
    quiet(walk)
    other = make_endpoint(url=walk.consumer.url, events=["webhook.warning"])
    seen = []
    for hours in (0, 13, 23, 23, 12.9, 0.2, 23, 5):
        walk.clock.advance(hours=hours)
        fail(walk)
        seen.append(len(told("webhook.warning")))
    assert seen == [0, 0, 0, 0, 0, 1, 1, 1]
    (event,) = told("webhook.warning")
    data = json.loads(bytes(event.body))["data"]
    assert (data["reason"], data["progress"]) == ("failing", 0.6)
    assert heard(event) == {other.pk}
    assert signalled == [("warned", "failing")]


def test_failures_now_and_then_never_start_the_clock(walk: Walk):
    """Auto-disable: the clock starts only with several failures within 24 h."""
    quiet(walk)
    for _ in range(8):
        fail(walk)
        walk.clock.advance(hours=25)
    assert (walk.state.enabled, walk.state.warnings) == (True, 0)


def test_a_short_burst_does_not_start_the_clock(walk: Walk):
    """Auto-disable: and only with at least 12 h between the first and the last of them."""
    quiet(walk)
    for hours in (0, 4, 7, 110, 4):
        walk.clock.advance(hours=hours)
        fail(walk)
    assert walk.state.enabled
    walk.clock.advance(hours=8)
    fail(walk)
    assert walk.state.enabled, "the present burst is twelve hours old, not five days"


def test_a_running_clock_is_not_stopped_by_silence(walk: Walk):
    """Auto-disable: once it runs, only a success stops it; a failure five days after its start disables."""
    quiet(walk)
    for hours in (0, 13, 106.9):
        walk.clock.advance(hours=hours)
        fail(walk)
    assert walk.state.enabled
    walk.clock.advance(hours=0.2)
    fail(walk)
    assert not walk.state.enabled


def test_one_success_resets_it(walk: Walk, signalled: list[tuple[str, str]]):
    """Auto-disable: one success resets clock and warning, and whoever was warned is told."""
    quiet(walk)
    for hours in (0, 13, 22, 22, 20):
        walk.clock.advance(hours=hours)
        fail(walk)
    assert walk.state.warnings == 1
    walk.consumer.always = OK
    walk.emit()
    assert (walk.state.warnings, walk.state.consecutive_failures, walk.state.failing_from) == (0, 0, None)
    assert signalled == [("warned", "failing"), ("recovered", "delivered")]
    assert len(told("webhook.recovered")) == 1
    walk.clock.advance(hours=50)
    fail(walk)
    assert walk.state.enabled


def test_it_can_be_switched_off(walk: Walk):
    """Auto-disable: an endpoint may turn it off; its messages end by their own schedule."""
    quiet(walk, {"auto_disable": False, "waits": [5, 40_000]})
    for _ in range(7):
        walk.consumer.always = OOPS
        (delivery,) = walk.emit()
        walk.play(delivery)
        assert delivery.state == "exhausted"
        walk.clock.advance(hours=12)
    assert (walk.state.enabled, told("webhook.warning")) == (True, [])


def test_enabling_starts_a_new_life(walk: Walk):
    """B025: after it was enabled again one failure neither disables nor warns nor opens anything."""
    endpoint = open_breaker(walk)[0].endpoint
    while walk.state.enabled:
        walk.wait(hours=6)
    assert len(told("webhook.warning")) == 1
    walk.act(lambda: enable(OPERATOR, endpoint))
    fail(walk)
    state = walk.state
    assert (state.enabled, state.breaker, state.consecutive_failures) == (True, "closed", 1)
    assert (state.warnings, len(told("webhook.warning"))) == (0, 1)


def test_who_hears_of_its_health(walk: Walk):
    """Events: they go to the tenant's, the partner's and the platform's others, never to the subject."""
    partner = Partner.objects.create(id="umbrella")
    Tenant.objects.create(id="acme", partner=partner)
    Tenant.objects.create(id="sister", partner=partner)
    walk.subscribe("strict")
    wants = {"url": walk.consumer.url, "events": ["webhook.*"]}
    mine, of_partner = make_endpoint(**wants), make_endpoint(**wants, partner_id="umbrella")
    platform = make_endpoint(**wants, partner_id=None)
    for stranger in ({"tenant_id": "sister"}, {"partner_id": "other"}, {"environment": "test"}):
        make_endpoint(**wants, **stranger)
    walk.consumer.answer(reply("302 Found", b""), GONE)
    walk.emit(2)
    for event in (*told("webhook.warning"), *told("webhook.disabled")):
        assert heard(event) == {mine.pk, of_partner.pk, platform.pk}
    assert len(told("webhook.disabled")) == len(told("webhook.warning")) == 1
