"""What people do about deliveries, under every policy: replay, resend, recover, cancel.

Each docstring says in our own words which rule it checks.
"""

import json
from datetime import timedelta
from typing import Any

import pytest
import standardwebhooks

from tests.actions.builders import OPERATOR
from tests.conformance.driving import SECRET, now
from tests.conformance.walking import OK, OOPS, Walk, attempts_of, offsets, planned, states
from webhooks_app.actions.cancel import cancel
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.recover import recover
from webhooks_app.actions.replay import replay
from webhooks_app.actions.resend import resend
from webhooks_app.actions.run_jobs import run_jobs
from webhooks_app.core.policies import PRESETS
from webhooks_app.exceptions import Conflict
from webhooks_app.models import Delivery, EndpointState, Event

EVERY = pytest.mark.parametrize("policy", PRESETS)
NEW_ID = {"standard": False, "strict": False, "exponential": True, "quick": False}


def plain(walk: Walk, policy: str, **overrides: Any) -> None:
    """Subscribe an endpoint without jitter, order and breaker."""
    given = {"jitter_kind": "none", "breaker": False, "auto_disable": False, **overrides}
    walk.subscribe(policy, given, ordering="none", max_in_flight=100)


def again(walk: Walk, delivery: Delivery, **values: Any) -> int:
    """Replay the event of a delivery, and let the path follow."""
    event_id = delivery.event.public_id
    return walk.act(lambda: replay(OPERATOR, walk.endpoint, event_ids=[event_id], **values))


@EVERY
def test_the_id_of_a_replay(walk: Walk, policy: str):
    """Replay: the same message id, so that receivers know it; or a new one, marked as a replay."""
    plain(walk, policy)
    (delivery,) = walk.emit()
    assert again(walk, delivery) == 1
    first, second = walk.consumer.requests
    payload = standardwebhooks.Webhook(SECRET).verify(second.body, second.headers)
    assert payload["data"] == json.loads(first.body)["data"]
    assert (second.headers["webhook-id"] != first.headers["webhook-id"]) is NEW_ID[policy]
    assert payload["id"] == second.headers["webhook-id"]
    if NEW_ID[policy]:
        assert payload["replay"]["original_event_id"] == first.headers["webhook-id"]
    else:
        assert (second.body, "replay" in payload) == (first.body, False)


@EVERY
def test_a_replay_starts_the_schedule_anew(walk: Walk, policy: str):
    """Replay: the full schedule restarts, counted from the replay; numbers of attempts go on."""
    plain(walk, policy, waits=[10, 20])
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    once = walk.play(delivery)
    assert (delivery.state, planned(once)) == ("exhausted", [10, 20])
    walk.clock.advance(days=5)
    again(walk, delivery, webhook_id="same")
    both = walk.play(delivery)
    assert (delivery.state, planned(both)) == ("exhausted", [10, 20, 10, 20])
    assert [each.number for each in both] == [1, 2, 3, 4, 5, 6]
    assert [later - both[3].created_at.timestamp() < 35 for later in (both[5].created_at.timestamp(),)] == [
        True
    ]


@EVERY
def test_a_replay_ends_with_the_retention(walk: Walk, policy: str):
    """Replay: within 30 days of the event's time, never of when it died."""
    plain(walk, policy)
    (delivery,) = walk.emit()
    walk.clock.advance(days=29, hours=23)
    assert again(walk, delivery) == 1
    walk.clock.advance(hours=2)
    assert again(walk, delivery) == 0
    assert walk.requests == 2


@EVERY
def test_a_replay_to_a_disabled_endpoint_is_refused(walk: Walk, policy: str):
    """Replay: refused while the endpoint is switched off."""
    plain(walk, policy)
    (delivery,) = walk.emit()
    walk.act(lambda: disable(OPERATOR, walk.endpoint))
    with pytest.raises(Conflict) as refused:
        again(walk, delivery)
    assert refused.value.code == "webhook_disabled"


@pytest.mark.parametrize(("policy", "refused"), [("strict", False), ("exponential", True)])
def test_a_replay_while_the_breaker_is_open(walk: Walk, policy: str, refused: bool):
    """Replay: refused by the policy that says so; under the other it is held like everything else."""
    walk.subscribe(policy)
    (delivery,) = walk.emit()
    walk.consumer.always = OOPS
    walk.emit(30)
    assert walk.breaker == "open"
    made = walk.requests
    if refused:
        with pytest.raises(Conflict) as conflict:
            again(walk, delivery)
        assert conflict.value.code == "breaker_open"
    else:
        assert again(walk, delivery) == 1
    assert walk.requests == made


@EVERY
def test_a_resend_that_succeeds_ends_the_schedule(walk: Walk, policy: str):
    """Resend: one attempt at once; when it succeeds, what was scheduled is no longer made."""
    plain(walk, policy)
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    assert walk.act(lambda: resend(OPERATOR, delivery)).trigger == "manual"
    walk.wait(days=1)
    assert (states([delivery]), walk.requests) == (["delivered"], 2)
    first, second = walk.consumer.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


@EVERY
def test_a_resend_that_fails_leaves_the_schedule(walk: Walk, policy: str):
    """Resend: when it fails the schedule goes on unchanged, and the attempt does not count for it."""
    plain(walk, policy, waits=[100, 200])
    walk.consumer.always = OOPS
    (delivery,) = walk.emit()
    walk.clock.advance(seconds=30)
    walk.act(lambda: resend(OPERATOR, delivery))
    made = walk.play(delivery)
    assert [each.trigger for each in made] == ["schedule", "manual", "schedule", "schedule"]
    assert [round(seconds / 10) for seconds in offsets(made)] == [0, 3, 10, 30]
    assert delivery.state == "exhausted"


@EVERY
def test_a_resend_of_an_ended_one(walk: Walk, policy: str):
    """Resend: a failure leaves the end as it was; a success delivers."""
    plain(walk, policy, waits=[])
    walk.consumer.answer(OOPS, OOPS)
    (delivery,) = walk.emit()
    for expected in ("exhausted", "delivered"):
        walk.act(lambda: resend(OPERATOR, delivery))
        assert states([delivery]) == [expected]
    assert [each.status for each in attempts_of(delivery)] == ["dead", "failed", "succeeded"]


@EVERY
def test_a_resend_passes_an_open_breaker_and_leaves_it(walk: Walk, policy: str):
    """Resend: a person's attempt is no probe."""
    walk.subscribe(policy, ordering="none", max_in_flight=100)
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    EndpointState.objects.update(breaker="open", probe_at=now() + timedelta(seconds=30))
    walk.act(lambda: resend(OPERATOR, delivery))
    assert states([delivery]) == ["delivered"]
    expected = "open" if PRESETS[policy].breaker else "closed"
    assert walk.breaker == expected


@EVERY
def test_recovering_what_was_missed(walk: Walk, policy: str):
    """Recover: what died and what occurred while the endpoint was disabled; each begins its schedule anew."""
    plain(walk, policy, waits=[])
    walk.consumer.answer(OOPS, OK)
    since = now() - timedelta(minutes=1)
    dead, delivered = walk.emit(2)
    walk.act(lambda: disable(OPERATOR, walk.endpoint))
    walk.emit(2)
    walk.act(lambda: enable(OPERATOR, walk.endpoint))
    walk.act(lambda: recover(OPERATOR, walk.endpoint, since=since))
    walk.act(run_jobs)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}
    assert (Delivery.objects.count(), walk.requests) == (4, 5)
    assert [len(attempts_of(each)) for each in (dead, delivered)] == [2, 1]
    ids = {request.headers["webhook-id"] for request in walk.consumer.requests}
    assert ids == set(Event.objects.filter(type="order.paid").values_list("public_id", flat=True))


@EVERY
def test_cancelling_what_is_scheduled(walk: Walk, policy: str):
    """Cancel: pending attempts are not made; the delivery ends as `cancelled`, and may be replayed."""
    plain(walk, policy)
    walk.consumer.answer(OOPS)
    (delivery,) = walk.emit()
    walk.act(lambda: cancel(OPERATOR, delivery))
    walk.wait(days=1)
    assert (states([delivery]), walk.requests) == (["cancelled"], 1)
    again(walk, delivery, webhook_id="same")
    assert (states([delivery]), walk.requests) == (["delivered"], 2)
