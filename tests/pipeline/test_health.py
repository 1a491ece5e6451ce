"""An endpoint's health: the window, failures in a row, disabling by 410, by request, by lasting failure."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from webhooks_app.actions import enable as enabling
from webhooks_app.actions.actor import operator
from webhooks_app.core.ids import system_event_id
from webhooks_app.models import AuditEntry, Delivery, Endpoint, EndpointState, Event
from webhooks_app.pipeline import inline
from webhooks_app.signals import endpoint_disabled

from .conftest import Bell, Clock
from .driving import attempt, attempts_of, check_books, claim, disabled_by, run_path, send, waiting
from .factories import EndpointFactory, PartnerFactory, TenantFactory
from .receiver import OK, TIMEOUT, Receiver, reply

pytestmark = pytest.mark.django_db

FAILED = reply(500)


def state_of(endpoint: Endpoint) -> EndpointState:
    return EndpointState.objects.get(pk=endpoint.pk)


def health_of(endpoint: Endpoint) -> dict[str, Any]:
    """Return the state row without its counters, which count everything."""
    row = EndpointState.objects.filter(pk=endpoint.pk).values().get()
    counters = ("delivered", "retried", "failed", "dead_lettered", "latency_ms", "last_success_at")
    return {name: value for name, value in row.items() if name not in counters}


def set_state(endpoint: Endpoint, **values: Any) -> None:
    EndpointState.objects.filter(pk=endpoint.pk).update(**values)


def enable(endpoint: Endpoint) -> None:
    set_state(endpoint, enabled=False)
    enabling.enable(operator("system", "test"), endpoint)


def failing(failures: int, **ago: float) -> dict[str, Any]:
    return {
        "state__consecutive_failures": failures,
        "state__first_failure_at": timezone.now() - timedelta(**ago),
    }


def test_the_window_doubles_up_to_the_cap(receiver: Receiver):
    endpoint = EndpointFactory(max_in_flight=20)
    sizes = []
    for _ in range(5):
        waiting(endpoint, 25)
        sizes.append(len(claim(endpoint).jobs))
        Delivery.objects.update(lease_token=None, lease_until=None)
        attempt(endpoint)
    assert sizes == [4, 8, 16, 20, 20]


def test_silence_halves_the_window(receiver: Receiver):
    endpoint = EndpointFactory(state__window=16)
    waiting(endpoint, 3)
    receiver.script(endpoint, OK, TIMEOUT)
    attempt(endpoint)
    assert state_of(endpoint).window == 8
    for _ in range(5):
        waiting(endpoint)
        receiver.script(endpoint, TIMEOUT)
        attempt(endpoint)
    assert state_of(endpoint).window == 1


@pytest.mark.parametrize("window", [1, 4, 100])
@pytest.mark.parametrize("slow", [reply(200, duration_ms=1001), reply(500, duration_ms=9000)])
def test_slow_answers_lead_to_a_window_of_seven(slow: Any, window: int, receiver: Receiver):
    endpoint = EndpointFactory(state__window=window)
    for _ in range(6):
        waiting(endpoint)
        receiver.script(endpoint, slow)
        attempt(endpoint)
    assert state_of(endpoint).window == 7


@pytest.mark.parametrize("quick", [reply(200, duration_ms=1000), reply(500)])
def test_a_quick_answer_is_not_slow_even_a_failure(quick: Any, receiver: Receiver):
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.script(endpoint, quick)
    attempt(endpoint)
    assert state_of(endpoint).window == 8


def test_failures_in_a_row_are_counted_and_a_success_forgets_them(receiver: Receiver, clock: Clock):
    """B038"""
    endpoint = EndpointFactory(state__window=100)
    waiting(endpoint, 30)
    receiver.script(endpoint, *[FAILED] * 30)
    attempt(endpoint)
    state = state_of(endpoint)
    assert state.consecutive_failures == 30
    assert state.first_failure_at is not None
    assert state.last_failure_at is not None
    clock.advance(hours=5)
    waiting(endpoint)
    receiver.script(endpoint, FAILED)
    Delivery.objects.filter(attempts=1).update(due_at=timezone.now() + timedelta(days=9))
    attempt(endpoint)
    assert state_of(endpoint).consecutive_failures == 31
    assert state_of(endpoint).first_failure_at == state.first_failure_at
    waiting(endpoint)
    attempt(endpoint)
    state = state_of(endpoint)
    assert (state.consecutive_failures, state.first_failure_at) == (0, None)
    assert state.last_success_at is not None


@pytest.mark.parametrize(("order", "expected"), [((OK, FAILED, FAILED), 2), ((FAILED, FAILED, OK), 0)])
def test_only_failures_after_the_last_success_count(order: Any, expected: int, receiver: Receiver):
    endpoint = EndpointFactory(state__consecutive_failures=50)
    waiting(endpoint, 3)
    receiver.script(endpoint, *order)
    attempt(endpoint)
    assert state_of(endpoint).consecutive_failures == expected


def test_outcomes_count_in_the_order_in_which_they_came_in(receiver: Receiver):
    endpoint = EndpointFactory(state__consecutive_failures=50)
    waiting(endpoint, 2)
    receiver.script(endpoint, FAILED, OK)
    held = claim(endpoint)
    send(replace(held, units=held.units[::-1]))()
    assert state_of(endpoint).consecutive_failures == 0


def test_the_hundredth_failure_over_a_day_disables(receiver: Receiver, bell: Bell):
    """B028"""
    endpoint = EndpointFactory(**failing(98, hours=25))
    told = []

    def listen(**values: Any) -> None:
        told.append((values["endpoint_id"], values["reason"]))

    endpoint_disabled.connect(listen)
    receiver.always(endpoint, FAILED)
    waiting(endpoint)
    attempt(endpoint)
    assert state_of(endpoint).enabled
    waiting(endpoint)
    bell.take()
    attempt(endpoint)
    state = state_of(endpoint)
    assert (state.enabled, state.disabled_reason, state.consecutive_failures) == (False, "failing", 100)
    assert state.disabled_at is not None
    assert told == [(endpoint.public_id, "failing")]
    assert bell.take().fan_out
    event = Event.objects.get(type="webhook.disabled")
    entry = AuditEntry.objects.get(action="webhook.disabled")
    assert (entry.actor_kind, entry.target_id, entry.tenant_id) == (
        "system",
        endpoint.public_id,
        endpoint.tenant_id,
    )
    assert entry.details == {"reason": "failing", "event_id": event.public_id}
    endpoint_disabled.disconnect(listen)


def test_a_hundred_failures_within_a_day_do_not_disable(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory(**failing(150, hours=23, minutes=50))
    receiver.always(endpoint, FAILED)
    waiting(endpoint)
    attempt(endpoint)
    assert state_of(endpoint).enabled
    clock.advance(minutes=20)
    waiting(endpoint)
    attempt(endpoint)
    assert not state_of(endpoint).enabled


def test_two_workers_at_the_threshold_disable_once(receiver: Receiver):
    """B028, B038: the second one's results belong to the life before."""
    endpoint = EndpointFactory(**failing(99, hours=25))
    receiver.always(endpoint, FAILED)
    waiting(endpoint, 2)
    first = claim(endpoint)
    record_first = send(replace(first, units=first.units[:1]))
    record_second = send(replace(first, units=first.units[1:]))
    assert disabled_by(record_first()) == [(endpoint.pk, "failing")]
    assert disabled_by(record_second()) == []
    assert state_of(endpoint).consecutive_failures == 100
    assert Event.objects.filter(type="webhook.disabled").count() == 1
    assert set(Delivery.objects.values_list("attempts", flat=True)) == {1}


def test_enabling_again_forgets_and_one_failure_does_not_disable(receiver: Receiver):
    """B025"""
    endpoint = EndpointFactory(**failing(99, hours=25))
    receiver.always(endpoint, FAILED)
    waiting(endpoint)
    attempt(endpoint)
    enable(endpoint)
    waiting(endpoint)
    attempt(endpoint)
    state = state_of(endpoint)
    assert (state.enabled, state.consecutive_failures) == (True, 1)


@pytest.mark.parametrize("answer", [FAILED, OK, reply(410), reply(429, retry_after="9000"), TIMEOUT])
def test_late_results_of_an_earlier_life_change_nothing(answer: Any, receiver: Receiver):
    endpoint = EndpointFactory(state__consecutive_failures=3, state__window=16)
    waiting(endpoint)
    receiver.always(endpoint, answer)
    late = send(claim(endpoint))
    enable(endpoint)
    set_state(endpoint, consecutive_failures=3)
    before = health_of(endpoint)
    assert not disabled_by(late())
    assert health_of(endpoint) == before
    assert Delivery.objects.get().attempts == 1


def test_a_410_disables_and_ends(receiver: Receiver, clock: Clock):
    endpoint = EndpointFactory()
    gone, due, later = waiting(endpoint, 3)
    receiver.script(endpoint, reply(410))
    Delivery.objects.filter(pk=due.pk).update(due_at=timezone.now() + timedelta(minutes=1))
    Delivery.objects.filter(pk=later.pk).update(due_at=timezone.now() + timedelta(hours=1))
    run_path()
    state = state_of(endpoint)
    assert (state.enabled, state.disabled_reason) == (False, "gone")
    gone.refresh_from_db()
    assert (gone.state, gone.last_error, gone.attempts) == ("failed_permanent", "status_410", 1)
    clock.advance(minutes=2)
    run_path()
    due.refresh_from_db()
    later.refresh_from_db()
    assert (due.state, due.last_error) == ("dead_lettered", "endpoint_disabled")
    assert later.state == "pending"
    assert len(receiver.requests) == 1
    check_books()


@pytest.mark.parametrize(("status", "state"), [(200, "delivered"), (500, "pending")])
def test_the_consumer_may_ask_to_be_disabled(status: int, state: str, receiver: Receiver):
    endpoint = EndpointFactory()
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(status, webhook_delivery="disable"))
    attempt(endpoint)
    assert (state_of(endpoint).enabled, state_of(endpoint).disabled_reason) == (False, "consumer")
    delivery.refresh_from_db()
    assert delivery.state == state


def test_the_disabled_event_says_what_and_why_and_nothing_more(receiver: Receiver):
    """B146"""
    endpoint = EndpointFactory(url="https://receiver.example/S3CRET?token=S3CRET")
    (delivery,) = waiting(endpoint)
    receiver.always(endpoint, reply(410))
    attempt(endpoint)
    event = Event.objects.get(type="webhook.disabled")
    row = attempts_of(delivery)[0]
    seed = f"webhook.disabled:{endpoint.public_id}:{delivery.event.public_id}:1"
    assert event.public_id == system_event_id(at=row.created_at, seed=seed)
    body = json.loads(bytes(event.body))
    assert body["id"] == event.public_id
    assert (body["type"], body["sequence"], body["tenant_id"]) == (
        "webhook.disabled",
        None,
        endpoint.tenant_id,
    )
    assert body["data"] == {"webhook_id": endpoint.public_id, "reason": "gone"}
    assert b"S3CRET" not in bytes(event.body)
    assert "S3CRET" in row.url
    assert "token" not in row.url


def test_the_disabled_event_is_named_after_the_attempt_that_caused_it(receiver: Receiver):
    endpoint = EndpointFactory()
    cause, other = waiting(endpoint, 2)
    receiver.script(endpoint, reply(410), FAILED)
    attempt(endpoint)
    row = attempts_of(cause)[0]
    assert row.created_at <= attempts_of(other)[0].created_at
    seed = f"webhook.disabled:{endpoint.public_id}:{cause.event.public_id}:1"
    event_id = system_event_id(at=row.created_at, seed=seed)
    assert Event.objects.get(type="webhook.disabled").public_id == event_id


def heard(endpoint: Endpoint) -> set[int]:
    event = Event.objects.get(type="webhook.disabled", about_endpoint_id=endpoint.pk)
    assert event.fanned_out_at is not None
    return set(Delivery.objects.filter(event=event).values_list("endpoint_id", flat=True))


def disable_by_410(endpoint: Endpoint, receiver: Receiver) -> None:
    waiting(endpoint)
    receiver.script(endpoint, reply(410))
    attempt(endpoint)
    inline.fan_out()


def test_platform_and_partner_hear_of_it_never_the_subject_nor_the_tenant(receiver: Receiver):
    partner = PartnerFactory()
    tenant = TenantFactory(partner=partner)
    subject = EndpointFactory(tenant_id=tenant.pk)
    EndpointFactory(tenant_id=tenant.pk)
    EndpointFactory(tenant_id=None, partner_id=PartnerFactory().pk)
    EndpointFactory(tenant_id=None, environment="test")
    EndpointFactory(tenant_id=None, events=["order.*"])
    of_partner = EndpointFactory(tenant_id=None, partner_id=partner.pk)
    platform = EndpointFactory(tenant_id=None)
    disable_by_410(subject, receiver)
    assert heard(subject) == {of_partner.pk, platform.pk}
    run_path()
    assert "webhook.disabled" in receiver.to(platform)[-1].body.decode()


def test_a_platform_endpoint_never_hears_of_itself(receiver: Receiver):
    subject, other = EndpointFactory(tenant_id=None), EndpointFactory(tenant_id=None)
    disable_by_410(subject, receiver)
    set_state(subject, enabled=True)
    assert heard(subject) == {other.pk}


def test_a_partners_other_endpoints_hear_of_it(receiver: Receiver):
    partner = PartnerFactory()
    subject, other = (EndpointFactory(tenant_id=None, partner_id=partner.pk) for _ in range(2))
    waiting(EndpointFactory(tenant_id=TenantFactory(partner=partner).pk))
    receiver.script(subject, reply(410))
    run_path()
    inline.fan_out()
    assert heard(subject) == {other.pk}


def test_the_tenants_other_endpoints_hear_of_it_where_the_policy_says_so(
    receiver: Receiver, configure: Callable[..., None]
):
    configure(POLICIES={"loud": {"base": "standard", "notify_tenant": True}})
    subject = EndpointFactory(policy="loud")
    other = EndpointFactory(tenant_id=subject.tenant_id)
    EndpointFactory()
    disable_by_410(subject, receiver)
    assert heard(subject) == {other.pk}


def test_the_hosts_partner_hears_of_it(receiver: Receiver, configure: Callable[..., None]):
    configure(TENANCY="tests.pipeline.test_fan_out.Host")
    subject = EndpointFactory(tenant_id="h-1")
    house = EndpointFactory(tenant_id=None, partner_id="house")
    disable_by_410(subject, receiver)
    assert heard(subject) == {house.pk}


def test_a_record_that_is_repeated_writes_the_event_once(receiver: Receiver):
    endpoint = EndpointFactory()
    waiting(endpoint)
    receiver.always(endpoint, reply(410))
    held = claim(endpoint)
    first, second = send(held), send(held)
    first()
    second()
    assert Event.objects.filter(type="webhook.disabled").count() == 1
