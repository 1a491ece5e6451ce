"""The policy `standard`, line by line: its schedule, what it retries, and when it gives up on an endpoint.

Each docstring says in our own words which rule it checks.
"""

import json
import logging
from datetime import timedelta

import pytest
import standardwebhooks

from tests.actions.builders import OPERATOR, make_endpoint
from tests.conformance.driving import SECRET, now
from tests.conformance.walking import (
    ALONE,
    OOPS,
    STATUSES,
    Walk,
    attempts_of,
    audited,
    busy,
    endings,
    heard,
    offsets,
    planned,
    told,
)
from tests.net.servers import reply
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.resume import resume
from webhooks_app.core.ids import system_event_id
from webhooks_app.models import Delivery, EndpointState, Event, OutboxEntry, Partner, Tenant

WAITS = [30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 43_200, 43_200, 68_400]
OFFSETS = [0, 30, 150, 750, 2550, 6150, 13_350, 27_750, 56_550, 99_750, 142_950, 186_150, 254_550]
HOUR = 3600


def test_the_waits_are_exactly_these(walk: Walk):
    """Schedule: after attempt 1 wait 30 s, then 2, 10, 30 min, 1, 2, 4, 8, 12, 12, 12, 19 h; none is 14th."""
    walk.subscribe("standard", {"jitter_kind": "none"})
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    made = walk.play(delivery)
    assert planned(made) == WAITS
    assert all(abs(real - due) <= 2 for real, due in zip(offsets(made), OFFSETS, strict=True))
    assert [each.number for each in made] == list(range(1, 14))
    assert (delivery.state, delivery.attempts, delivery.step) == ("exhausted", 13, 12)


def test_the_last_attempt_is_dead_and_those_before_it_failed(walk: Walk):
    """Schedule: the 13th attempt is the last; failing it, the delivery is dead, and says when no more."""
    walk.subscribe("standard")
    walk.consumer.always = OOPS
    made = walk.play(walk.emit()[0])
    assert [each.status for each in made] == ["failed"] * 12 + ["dead"]
    assert [each.next_attempt_at is None for each in made] == [False] * 12 + [True]


def test_jitter_spreads_each_wait_by_a_tenth(walk: Walk):
    """Schedule: each wait times a random factor from 0.9 to 1.1, in whole seconds, a day at most."""
    walk.subscribe("standard")
    walk.consumer.always = OOPS
    several = [planned(walk.play(each)) for each in walk.emit(3)]
    for waits in several:
        pairs = zip(waits, WAITS, strict=True)
        assert all(0.9 * nominal <= wait <= min(1.1 * nominal, 86_400) for wait, nominal in pairs)
        assert all(wait == round(wait) for wait in waits)
        assert 63 * HOUR < sum(waits) < 78 * HOUR
    assert len({tuple(waits) for waits in several}) == 3


def test_a_retry_is_the_same_message_signed_afresh(walk: Walk):
    """Signing: the id and the bytes stay, the time is the attempt's, and a library accepts each."""
    walk.subscribe("standard")
    walk.consumer.answer(OOPS, OOPS)
    (delivery,) = walk.emit()
    walk.play(delivery)
    first, second, third = walk.consumer.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == third.headers["webhook-id"]
    assert first.body == second.body == third.body
    times = [int(request.headers["webhook-timestamp"]) for request in walk.consumer.requests]
    assert 25 <= times[1] - times[0] <= 35
    assert 105 <= times[2] - times[1] <= 135
    standardwebhooks.Webhook(SECRET).verify(first.body, first.headers)


def test_what_each_status_leads_to(walk: Walk):
    """Outcome: any 2xx is success; every redirect, client and server error is a failure and is retried."""
    walk.subscribe("standard", ALONE, max_in_flight=1000)
    found = walk.answers(STATUSES)
    kinds = {2: ("delivered", ""), 3: ("pending", "redirect"), 4: ("pending", "status_4xx")}
    assert found == {status: kinds.get(status // 100, ("pending", "status_5xx")) for status in STATUSES}


def test_a_refused_address_is_a_failed_attempt_that_is_retried(walk: Walk, product):
    """Addresses: checked again before every attempt; a refused one is `ssrf_blocked`, and tried again."""
    walk.subscribe("standard")
    product(ALLOW_NETWORKS=[])
    (delivery,) = walk.emit()
    (attempt,) = attempts_of(delivery)
    assert (attempt.status, attempt.error, attempt.http_status) == ("failed", "ssrf_blocked", None)
    assert (delivery.state, walk.requests) == ("pending", 0)
    product(ALLOW_NETWORKS=["127.0.0.0/8"])
    walk.play(delivery)
    assert delivery.state == "delivered"


def test_a_secret_that_does_not_open_is_retried_and_counts_for_nobody(walk: Walk):
    """Secrets: one that does not open fails the attempt as `secret_unavailable`."""
    endpoint = walk.subscribe("standard")
    endpoint.secrets.update(sealed="whs1.0000000000000000.AAAAAAAAAAAAAAAA.AAAA")
    (delivery,) = walk.emit()
    (attempt,) = attempts_of(delivery)
    assert (attempt.error, delivery.state, walk.requests) == ("secret_unavailable", "pending", 0)
    assert walk.state.consecutive_failures == 0


def test_a_payload_that_is_gone_ends_its_delivery(walk: Walk):
    """Payload: erased or pruned, it cannot be sent; the delivery is dead as `event_unavailable`."""
    walk.subscribe("standard")
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    OutboxEntry.objects.all().delete()
    walk.play(delivery)
    assert (delivery.state, delivery.last_error, walk.requests) == ("dead_lettered", "event_unavailable", 1)


def test_410_disables_at_once(walk: Walk):
    """Gone: a 410 ends the delivery and disables the endpoint; one event says so, with `gone`."""
    endpoint = walk.subscribe("standard")
    walk.consumer.answer(reply("410 Gone", b""))
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error) == ("failed_permanent", "status_410")
    assert (walk.state.enabled, walk.state.disabled_reason) == (False, "gone")
    (event,) = told("webhook.disabled")
    assert json.loads(bytes(event.body))["data"] == {"webhook_id": endpoint.public_id, "reason": "gone"}


def fail(walk: Walk, count: int) -> None:
    """Let so many attempts fail now, whose retries stay away."""
    walk.consumer.always = OOPS
    walk.emit(count)
    Delivery.objects.filter(state="pending").update(due_at=now() + timedelta(days=20))


def test_a_hundred_failures_over_a_day_disable(walk: Walk):
    """Lasting failure: 100 in a row, the first at least 24 h ago. Neither alone is enough."""
    walk.subscribe("standard")
    fail(walk, 99)
    walk.clock.advance(hours=25)
    assert walk.state.enabled
    fail(walk, 1)
    state = walk.state
    assert (state.enabled, state.disabled_reason, state.consecutive_failures) == (False, "failing", 100)
    assert len(told("webhook.disabled")) == 1
    assert audited("webhook.disabled") == [("webhook.disabled", "failing")]


def test_a_hundred_failures_within_a_day_do_not(walk: Walk):
    """Lasting failure: a hundred, or three hundred, within 24 h disable nobody."""
    walk.subscribe("standard")
    fail(walk, 150)
    walk.clock.advance(hours=23, minutes=58)
    fail(walk, 150)
    assert (walk.state.enabled, walk.state.consecutive_failures) == (True, 300)
    walk.clock.advance(minutes=3)
    fail(walk, 1)
    assert not walk.state.enabled


def test_a_success_forgets_every_failure(walk: Walk):
    """Lasting failure: only those since the last success count, in number and in time."""
    walk.subscribe("standard")
    fail(walk, 99)
    walk.clock.advance(hours=25)
    walk.consumer.always = reply()
    walk.emit()
    fail(walk, 100)
    assert (walk.state.enabled, walk.state.consecutive_failures) == (True, 100)


def test_enabling_forgets_every_failure(walk: Walk):
    """Lasting failure: enabled again, failures and reason are reset; it takes another hundred and a day."""
    endpoint = walk.subscribe("standard")
    fail(walk, 99)
    walk.clock.advance(hours=25)
    fail(walk, 1)
    walk.act(lambda: enable(OPERATOR, endpoint))
    assert (walk.state.enabled, walk.state.disabled_reason) == (True, None)
    fail(walk, 101)
    assert walk.state.enabled, "the first failure of the earlier life counts no more"
    walk.clock.advance(hours=24, seconds=1)
    fail(walk, 1)
    assert not walk.state.enabled
    assert len(told("webhook.disabled")) == 2


def test_warnings_on_the_way_by_the_endpoints_own_wish(walk: Walk):
    """Warnings: none by default; asked for at 50, 70 and 90 % they come once each, then the disabling."""
    walk.subscribe("standard", {"auto_disable": {"warnings": [0.5, 0.7, 0.9]}})
    fail(walk, 100)
    seen = []
    for hours in (11.9, 0.2, 4.5, 0.5, 4.4, 0.3, 2.1, 0.2):
        walk.clock.advance(hours=hours)
        fail(walk, 1)
        seen.append(len(told("webhook.warning")))
    assert seen == [0, 1, 1, 2, 2, 3, 3, 3]
    shares = [json.loads(bytes(event.body))["data"]["progress"] for event in told("webhook.warning")]
    assert shares == [0.5, 0.7, 0.9]
    assert not walk.state.enabled


def test_the_event_of_a_disabling_is_named_after_its_cause(walk: Walk):
    """Platform events: the id follows from endpoint, event and attempt, so a repeat rewrites the same one."""
    endpoint = walk.subscribe("standard")
    walk.consumer.answer(OOPS, reply("410 Gone", b""))
    (delivery,) = walk.emit()
    cause = walk.play(delivery)[-1]
    seed = f"webhook.disabled:{endpoint.public_id}:{delivery.event.public_id}:2"
    assert told("webhook.disabled")[0].public_id == system_event_id(at=cause.created_at, seed=seed)


def test_who_hears_of_a_disabling(walk: Walk):
    """Platform events: the platform's and the partner's others; no tenant's endpoint, never its subject."""
    partner = Partner.objects.create(id="umbrella")
    Tenant.objects.create(id="acme", partner=partner)
    subject = walk.subscribe("standard", events=["order.paid"])
    others = {"url": walk.consumer.url, "events": ["webhook.*"]}
    make_endpoint(**others)
    make_endpoint(**others, partner_id="stranger")
    of_partner = make_endpoint(**others, partner_id="umbrella")
    platform = make_endpoint(**others, partner_id=None)
    walk.consumer.answer(reply("410 Gone", b""))
    walk.emit()
    (event,) = told("webhook.disabled")
    assert heard(event) == {of_partner.pk, platform.pk}
    assert json.loads(walk.consumer.requests[-1].body)["data"]["webhook_id"] == subject.public_id


def test_disabling_by_hand_is_no_event(walk: Walk):
    """Switching off by hand has the reason `manual` and makes no event."""
    endpoint = walk.subscribe("standard")
    walk.act(lambda: disable(OPERATOR, endpoint))
    assert walk.state.disabled_reason == "manual"
    assert not Event.objects.filter(type="webhook.disabled").exists()


def test_what_is_queued_at_a_disabled_endpoint_is_recorded_dead(walk: Walk):
    """Disabled: new events are not queued; queued ones end as `endpoint_disabled`, without a request."""
    endpoint = walk.subscribe("standard")
    walk.consumer.answer(OOPS)
    (queued,) = walk.emit()
    walk.act(lambda: disable(OPERATOR, endpoint))
    assert walk.emit() == []
    walk.play(queued)
    assert (queued.state, queued.last_error, queued.attempts) == ("dead_lettered", "endpoint_disabled", 1)
    assert walk.requests == 1


@pytest.mark.parametrize("owner", ["partner", "tenant"])
def test_a_suspended_partner_holds_without_using_attempts(walk: Walk, owner: str):
    """Suspended partner: its and its tenants' endpoints wait and count nothing; the platform's do not."""
    partner = Partner.objects.create(id="umbrella")
    Tenant.objects.create(id="acme", partner=partner)
    walk.subscribe("standard", **({} if owner == "tenant" else {"partner_id": "umbrella"}))
    make_endpoint(url=walk.consumer.url, partner_id=None, events=["order.paid"])
    Partner.objects.update(suspended_at=now())
    (held,) = walk.emit()
    walk.wait(days=5)
    held.refresh_from_db()
    assert (held.state, held.attempts, walk.requests) == ("pending", 0, 1)
    assert walk.state.consecutive_failures == 0
    Partner.objects.update(suspended_at=None)
    walk.wait(seconds=31)
    held.refresh_from_db()
    assert (held.state, held.attempts) == ("delivered", 1)


def test_held_beyond_the_replay_window_it_is_dead(walk: Walk):
    """Suspended partner: what is still held when its event is 30 days old ends as `event_unavailable`."""
    partner = Partner.objects.create(id="umbrella", suspended_at=now())
    Tenant.objects.create(id="acme", partner=partner)
    walk.subscribe("standard")
    (held,) = walk.emit()
    walk.clock.advance(days=30, hours=1)
    Partner.objects.update(suspended_at=None)
    walk.play(held)
    assert (held.state, held.last_error, held.attempts) == ("expired", "event_unavailable", 0)
    assert walk.requests == 0


def test_what_expires_while_it_is_held_says_so_and_its_attempts_what_went_wrong(walk: Walk):
    """States: `expired`, error `event_unavailable`; why it had not arrived by then is in its evidence."""
    walk.subscribe("standard", {"waits": [60]})
    walk.consumer.always = OOPS
    (held,) = walk.emit(expires_at=now() + timedelta(hours=1))
    EndpointState.objects.update(paused_at=now())
    walk.wait(hours=2)
    held.refresh_from_db()
    assert (held.state, held.last_error) == ("pending", "status_5xx")
    walk.act(lambda: resume(OPERATOR, walk.endpoint))
    walk.wait(seconds=31)
    held.refresh_from_db()
    assert (held.state, held.last_error, held.attempts) == ("expired", "event_unavailable", 1)
    assert [(each.error, each.http_status) for each in attempts_of(held)] == [("status_5xx", 500)]


def test_an_endpoint_gets_nothing_from_before_its_time(walk: Walk):
    """Filters: an endpoint made after an event does not get it."""
    walk.subscribe("standard", events=[])
    walk.emit()
    walk.subscribe("standard")
    walk.wait(seconds=60)
    assert walk.requests == 0


@pytest.mark.parametrize("status", [429, 503, 500, 404, 302])
def test_a_retry_after_raises_the_wait_up_to_a_day(walk: Walk, status: int):
    """Retry-After: with every failure, the longer of both waits; never over 24 h; each costs its step."""
    walk.subscribe("standard", {"jitter_kind": "none"})
    walk.consumer.answer(busy(status, "1"), busy(status, "1200"), busy(status, "1000000000"), OOPS)
    made = walk.play(walk.emit()[0])
    assert planned(made) == [30, 1200, 86_400, 1800]


def test_the_log_names_no_payload_and_no_query(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Logs: ids, codes and numbers; never the payload, nor what follows the `?` of a URL."""
    walk.subscribe("standard", {"waits": []}, url=f"{walk.consumer.url}/T1?token=S3CRET")
    walk.consumer.always = OOPS
    with caplog.at_level(logging.DEBUG):
        (delivery,) = walk.emit(data={"card": "4111-1111"})
    (line,) = endings(caplog.records)
    assert delivery.public_id in line
    assert "S3CRET" not in caplog.text
    assert "4111-1111" not in caplog.text


def test_a_second_wake_makes_no_second_request(walk: Walk):
    """Already done: a recorded delivery is not sent again, however often somebody is told to look."""
    endpoint = walk.subscribe("standard")
    walk.emit()
    for _ in range(3):
        EndpointState.objects.update(woken_until=None)
        walk.wait(seconds=40)
    assert (walk.requests, Delivery.objects.get(endpoint=endpoint).attempts) == (1, 1)
