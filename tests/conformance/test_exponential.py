"""The policy `exponential`, line by line: its schedule, its answers, its breaker.

Each docstring says in our own words which rule it checks.
"""

import re
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.actions.builders import OPERATOR
from tests.conformance.driving import now
from tests.conformance.troubles import Trouble
from tests.conformance.walking import (
    ALONE,
    OK,
    OOPS,
    STATUSES,
    Walk,
    attempts_of,
    audited,
    busy,
    endings,
    planned,
    states,
    told,
)
from tests.net.servers import reply
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.actions.test_send import test_send as send_test
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import Attempt, Delivery, Endpoint, EndpointState

DAY = 86_400
WAITS = [30.0 * 2**doubling for doubling in range(13)]
RETRIED = {408, 429, *range(300, 400), *range(500, 600)}


def test_the_waits_double_until_three_days_are_over(walk: Walk):
    """Schedule: 30 s, doubling; no retry later than three days after the event was recorded."""
    walk.subscribe("exponential", {"jitter_kind": "none"})
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    made = walk.play(delivery)
    assert planned(made) == WAITS
    assert len(made) == 14
    assert (made[-1].created_at - delivery.created_at).total_seconds() < 3 * DAY
    assert (delivery.state, delivery.last_error, made[-1].status) == ("exhausted", "status_5xx", "dead")


def test_jitter_spreads_each_wait_by_three_tenths(walk: Walk):
    """Schedule: each wait times a random factor from 0.7 to 1.3."""
    walk.subscribe("exponential", {"breaker": False})
    walk.consumer.always = OOPS
    several = [planned(attempts_of(each)) for each in walk.emit(20)]
    assert all(21 <= wait <= 39 for (wait,) in several)
    assert max(several)[0] - min(several)[0] > 3
    (delivery,) = walk.emit()
    waits = planned(walk.play(delivery))
    pairs = zip(waits, WAITS, strict=False)
    assert all(0.7 * nominal <= wait <= 1.3 * nominal for wait, nominal in pairs)
    assert 12 <= len(waits) <= 14


def test_time_before_the_first_attempt_counts(walk: Walk):
    """Schedule: the three days run from the recording; an event that waited has less of them left."""
    endpoint = walk.subscribe("exponential", {"jitter_kind": "none"})
    walk.consumer.always = OOPS
    walk.act(lambda: pause(OPERATOR, endpoint))
    late, too_late = walk.emit(2)
    Delivery.objects.filter(pk=too_late.pk).update(started_at=now() - timedelta(hours=2))
    walk.clock.advance(days=2, hours=23)
    walk.act(lambda: resume(OPERATOR, endpoint))
    made = walk.play(late)
    assert planned(made) == WAITS[:6]
    assert late.state == "exhausted"
    too_late.refresh_from_db()
    assert (too_late.state, too_late.attempts) == ("window_exceeded", 0)


def test_what_each_status_leads_to(walk: Walk):
    """Answers: 2xx ends it delivered; 408, 429, 5xx and redirects retry; any other 4xx stops at once."""
    walk.subscribe("exponential", ALONE, max_in_flight=1000)
    found = {status: state for status, (state, _) in walk.answers(STATUSES).items()}
    assert {status for status, state in found.items() if state == "delivered"} == set(range(200, 300))
    assert {status for status, state in found.items() if state == "pending"} == RETRIED
    assert {status for status, state in found.items() if state == "failed_permanent"} == (
        set(range(400, 500)) - {408, 410, 429}
    )


def test_410_is_a_4xx_like_others(walk: Walk):
    """Answers: a 410 is final for its message, and disables nobody."""
    walk.subscribe("exponential")
    walk.consumer.answer(reply("410 Gone", b""))
    (delivery,) = walk.emit()
    assert (delivery.state, walk.state.enabled) == ("failed_permanent", True)
    assert told("webhook.disabled") == []


@pytest.mark.parametrize("kind", ["connect", "dns", "tls", "timeout", "reset", "invalid_response"])
def test_every_kind_of_no_answer_is_retried(walk: Walk, product, monkeypatch: pytest.MonkeyPatch, kind: str):
    """Failure kinds: name, handshake, connection, reading, no recognisable answer: recorded and retried."""
    endpoint = walk.subscribe("exponential")
    getattr(Trouble(endpoint, walk.consumer, product, monkeypatch), kind)()
    (delivery,) = walk.emit()
    (attempt,) = attempts_of(delivery)
    assert (attempt.error, delivery.state, delivery.last_error) == (kind, "pending", kind)


def test_a_refused_address_is_final_and_nothing_is_sent(walk: Walk, product):
    """Failure kinds: an address that the policy of destinations refuses stops the delivery at once."""
    walk.subscribe("exponential")
    product(ALLOW_NETWORKS=[])
    (delivery,) = walk.emit()
    assert (delivery.state, delivery.last_error) == ("failed_permanent", "ssrf_blocked")
    assert walk.requests == 0


@pytest.mark.parametrize("status", [429, 503, 500, 408, 302])
def test_a_retry_after_raises_the_next_wait(walk: Walk, status: int):
    """Retry-After: on any failed reply it raises the wait to at least as much; each costs its step."""
    walk.subscribe("exponential", {"jitter_kind": "none"})
    walk.consumer.answer(busy(status, "10"), busy(status, "500"), busy(status, str(2 * DAY)), OOPS)
    assert planned(walk.play(walk.emit()[0])) == [30, 500, 2 * DAY, 240]


def test_a_retry_after_counts_only_within_the_time_left(walk: Walk):
    """Retry-After: one that leads past the three days ends the delivery."""
    walk.subscribe("exponential")
    walk.consumer.answer(busy(503, "259199"), busy(503, "259300"))
    (first,) = walk.emit()
    assert first.state == "pending"
    EndpointState.objects.update(hold_until=None)
    (second,) = walk.emit()
    assert (second.state, second.attempts) == ("window_exceeded", 1)


def test_giving_up_is_logged_as_a_warning(walk: Walk, caplog: pytest.LogCaptureFixture):
    """Evidence: the end is a warning with attempt number, kind of failure and age; never the URL's query."""
    walk.subscribe("exponential", {"waits": [30]}, url=f"{walk.consumer.url}?token=S3CRET")
    walk.consumer.answer(OOPS, busy(503, "0"))
    (delivery,) = walk.emit()
    walk.play(delivery)
    (line,) = endings(caplog.records)
    age = re.search(r"ended as exhausted after 2 attempts: status_5xx \(event is (\d+) s old\)", line)
    assert age
    assert 20 <= int(age[1]) <= 45
    assert "S3CRET" not in caplog.text


def test_every_attempt_leaves_a_row(walk: Walk):
    """Evidence: number, status, headers and first part of the body, the kind of failure: of each attempt."""
    walk.subscribe("exponential")
    walk.consumer.answer(reply("503 Busy", b"b" * 9000, "X-Why: tired"), reply("200 OK", b"thanks"))
    (delivery,) = walk.emit()
    failed, good = walk.play(delivery)
    assert (failed.number, failed.http_status, failed.error) == (1, 503, "status_5xx")
    assert ["X-Why", "tired"] in failed.reply_headers
    assert len(bytes(failed.reply_body)) == 8192
    assert (good.number, good.http_status, good.error, bytes(good.reply_body)) == (2, 200, "", b"thanks")


def test_each_attempt_has_an_id_of_its_own(walk: Walk):
    """Headers: a retry repeats the message's id; that of the attempt changes; the endpoint's is named."""
    endpoint = walk.subscribe("exponential")
    walk.consumer.answer(OOPS)
    walk.play(walk.emit()[0])
    first, second = (request.headers for request in walk.consumer.requests)
    assert first["webhook-id"] == second["webhook-id"]
    assert first["webhook-delivery-id"] != second["webhook-delivery-id"]
    assert first["webhook-endpoint-id"] == second["webhook-endpoint-id"] == endpoint.public_id


def test_each_attempt_goes_where_the_endpoint_points_then(walk: Walk):
    """Changing the URL: a made attempt keeps its target, the next one goes to the new one."""
    endpoint = walk.subscribe("exponential")
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    moved = {"url": walk.consumer.url + "/new", "retarget_pending": True}
    walk.act(lambda: update_endpoint(OPERATOR, Endpoint.objects.get(pk=endpoint.pk), moved))
    first, second = walk.play(delivery)
    assert (first.url, second.url) == (walk.consumer.url, walk.consumer.url + "/new")


def test_only_a_success_notes_the_use_of_its_secret(walk: Walk):
    """Secrets: a successful delivery updates when the secret that signed it was last used."""
    endpoint = walk.subscribe("exponential")
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    assert endpoint.secrets.get().last_used_at is None
    walk.play(delivery)
    assert endpoint.secrets.get().last_used_at is not None


def open_breaker(walk: Walk) -> list[Delivery]:
    """Let thirty deliveries fail in a row, whose retries are far away; return them."""
    walk.subscribe("exponential", {"waits": [86_000], "jitter": 0.0})
    walk.consumer.always = OOPS
    failed = walk.emit(29)
    assert walk.breaker == "closed"
    failed += walk.emit(1)
    assert walk.breaker == "open"
    return failed


def test_thirty_failures_in_a_row_open_it_and_live_sends_pause(walk: Walk):
    """Breaker: the thirtieth failure in a row opens it; nothing is lost and no attempt used meanwhile."""
    open_breaker(walk)
    held = walk.emit(3)
    for _ in range(5):
        walk.wait(seconds=11)
    assert walk.requests == 30
    assert [(each.state, each.attempts) for each in held] == [("pending", 0)] * 3


def test_it_is_probed_at_most_once_a_minute(walk: Walk):
    """Breaker: one probe at a time, not sooner than a minute after the one before; the oldest first."""
    open_breaker(walk)
    held = walk.emit(3)
    for _ in range(60):
        walk.wait(seconds=10)
    probes = list(Attempt.objects.filter(trigger="probe").order_by("created_at"))
    asked = [each.delivery_id for each in probes]
    assert asked[:3] == [each.pk for each in held]
    # What has failed stands back, so that a ping can ask in its stead.
    assert None in asked[3:5]
    assert held[0].pk in asked[3:]
    assert 8 <= len(probes) <= 10
    gaps = [b.created_at - a.created_at for a, b in pairwise(probes)]
    assert min(gaps) >= timedelta(seconds=60)
    assert set(Delivery.objects.filter(pk__in=[each.pk for each in held]).values_list("state", "step")) == {
        ("pending", 0)
    }


def test_two_good_probes_half_open_it_and_one_success_closes_it(walk: Walk):
    """Breaker: two good probes in a row, then live deliveries resume; one more success closes it."""
    open_breaker(walk)
    held = walk.emit(6)
    walk.consumer.always = OK
    walk.wait(seconds=61)
    assert (walk.breaker, states(held)) == ("open", ["delivered"] + ["pending"] * 5)
    walk.wait(seconds=61)
    assert (walk.breaker, walk.state.consecutive_failures) == ("closed", 0)
    assert states(held) == ["delivered"] * 6
    kinds = ("webhook.breaker_opened", "webhook.breaker_half_opened", "webhook.breaker_closed")
    assert audited(*kinds) == [(kind, "status_5xx") for kind in kinds]


def test_half_open_waits_for_a_live_delivery(walk: Walk):
    """Breaker: with nothing to send it becomes half-open by pings, and only a live delivery closes it."""
    open_breaker(walk)
    walk.consumer.always = OK
    walk.wait(seconds=61)
    walk.wait(seconds=61)
    walk.wait(seconds=61)
    assert (walk.breaker, walk.requests) == ("half_open", 32)
    walk.emit()
    assert walk.breaker == "closed"


def test_one_live_failure_opens_a_half_open_one_again(walk: Walk):
    """Breaker: half-open, one failed live delivery opens it again; that one cost an attempt."""
    open_breaker(walk)
    walk.consumer.always = OK
    walk.wait(seconds=61)
    walk.wait(seconds=61)
    assert walk.breaker == "half_open"
    walk.consumer.always = OOPS
    (failed,) = walk.emit()
    assert (walk.breaker, failed.step, failed.attempts) == ("open", 1, 1)
    walk.wait(seconds=58)
    assert walk.requests == 33


def test_a_bad_probe_starts_the_row_anew(walk: Walk):
    """Breaker: the two good probes must follow one another."""
    open_breaker(walk)
    walk.consumer.answer(OK, OOPS, OK, OK)
    for expected in ("open", "open", "open", "half_open"):
        walk.wait(seconds=61)
        assert walk.breaker == expected


def test_a_test_by_hand_moves_nothing(walk: Walk):
    """Breaker: a test never opens, advances or closes it, and neither replaces nor hastens a probe."""
    endpoint = open_breaker(walk)[0].endpoint
    before = EndpointState.objects.values().get()
    walk.consumer.answer(OK, OOPS, OK)
    for _ in range(3):
        walk.act(lambda: send_test(OPERATOR, endpoint))
    assert EndpointState.objects.values().get() == before


def test_nothing_disables_it(walk: Walk):
    """Health: however long it fails, nobody switches it off; it recovers by itself."""
    open_breaker(walk)
    for _ in range(40):
        walk.wait(hours=6)
    assert (walk.state.enabled, walk.state.warnings, walk.breaker) == (True, 0, "open")
    walk.consumer.always = OK
    walk.wait(seconds=61)
    walk.wait(seconds=61)
    assert states(walk.emit()) == ["delivered"]
