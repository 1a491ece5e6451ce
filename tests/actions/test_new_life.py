"""A new life: who enables or resumes, or gives a new URL or policy, ends what the receiver did before."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from tests.actions.builders import make_endpoint, tenant
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import AuditEntry, Endpoint, EndpointState
from webhooks_app.signals import breaker_changed

pytestmark = pytest.mark.django_db

AT = timezone.now() - timedelta(hours=1)
CLOSED = {
    "breaker": "closed",
    "breaker_at": None,
    "breaker_error": "",
    "breaker_successes": 0,
    "probe_at": None,
    "probe_token": None,
    "probe_until": None,
}
OPEN = {
    "breaker": "open",
    "breaker_at": AT,
    "breaker_error": "timeout",
    "breaker_successes": 1,
    "probe_at": AT,
    "probe_token": uuid4(),
    "probe_until": AT,
}
HEALTHY = {
    "window": 4,
    "starved": False,
    "hold_until": None,
    "consecutive_failures": 0,
    "first_failure_at": None,
    "failing_from": None,
    "warnings": 0,
    "health_warning": "",
}
FAILING = {
    "window": 1,
    "starved": True,
    "hold_until": AT,
    "consecutive_failures": 30,
    "first_failure_at": AT,
    "failing_from": AT,
    "warnings": 1,
    "health_warning": "redirect",
}
COUNTS = {
    "delivered": 5,
    "retried": 6,
    "failed": 7,
    "dead_lettered": 8,
    "last_failure_at": AT,
    "last_success_at": AT,
    "last_error": "timeout",
    "tokens": 0.5,
    "tokens_at": AT,
}


def troubled(**values: Any) -> Endpoint:
    """An endpoint whose receiver fails, and whose breaker is open."""
    row = make_endpoint(policy="exponential")
    EndpointState.objects.update(**OPEN, **FAILING, **COUNTS, latency_ms=900, **values)
    return row


def state(*names: str) -> dict[str, Any]:
    return EndpointState.objects.values(*names).get()


def audited() -> list[tuple[str, dict[str, Any]]]:
    return list(AuditEntry.objects.order_by("id").values_list("action", "details"))[1:]


def test_enabling_forgets_failures_warnings_and_breaker_and_keeps_the_counts():
    # B025: one failure after enabling must not bring the old end about.
    row = troubled(enabled=False, disabled_reason="failing", disabled_at=AT)
    enable(tenant(), row)
    assert state(*CLOSED) == CLOSED
    assert state(*HEALTHY) == HEALTHY
    assert state(*COUNTS) == COUNTS
    assert state("generation", "latency_ms") == {"generation": 2, "latency_ms": 900}
    assert audited() == [
        ("webhook.enabled", {"disabled_reason": "failing"}),
        ("webhook.breaker_closed", {"reason": "timeout", "cause": "enabled"}),
    ]


def test_enabling_what_is_enabled_closes_no_breaker():
    row = troubled()
    enable(tenant(), row)
    assert state(*OPEN, *FAILING) == {**OPEN, **FAILING}
    assert audited() == []


def test_disabling_leaves_the_breaker_to_whoever_enables():
    row = troubled()
    disable(tenant(), row)
    assert state(*OPEN) == OPEN
    enable(tenant(), row)
    assert state(*CLOSED) == CLOSED


def test_a_new_url_forgets_all_of_it_and_how_fast_the_old_one_was():
    row = troubled()
    update_endpoint(tenant(), row, {"url": "https://other.customer.com/"})
    assert state(*CLOSED, *HEALTHY, *COUNTS) == {**CLOSED, **HEALTHY, **COUNTS}
    assert state("latency_ms", "generation") == {"latency_ms": None, "generation": 2}
    assert ("webhook.breaker_closed", {"reason": "timeout", "cause": "url_changed"}) in audited()


@pytest.mark.parametrize(
    "change", [{"policy": "standard"}, {"policy_overrides": {"breaker": {"failures": 50}}}]
)
@pytest.mark.parametrize("breaker", ["open", "half_open"])
def test_another_policy_closes_the_breaker_and_forgives_nothing_else(change, breaker):
    row = troubled()
    EndpointState.objects.update(breaker=breaker)
    update_endpoint(tenant(), row, change)
    assert state(*CLOSED) == CLOSED
    assert state(*FAILING, *COUNTS) == {**FAILING, **COUNTS}
    # The results of requests under the old policy move the new breaker no more.
    assert state("generation") == {"generation": 2}
    closed, updated = audited()
    assert closed == ("webhook.breaker_closed", {"reason": "timeout", "cause": "policy_changed"})
    assert updated[0] == "webhook.updated"


def test_another_policy_moves_no_breaker_that_is_closed():
    row = make_endpoint(policy="exponential")
    update_endpoint(tenant(), row, {"policy": "strict"})
    assert state("generation", "breaker_at") == {"generation": 1, "breaker_at": None}
    assert [action for action, _ in audited()] == ["webhook.updated"]


@pytest.mark.parametrize(
    "change", [{"policy": "exponential"}, {"policy_overrides": {}}, {"description": "x"}]
)
def test_the_same_policy_and_other_fields_move_no_breaker(change):
    row = troubled()
    update_endpoint(tenant(), row, change)
    assert state(*OPEN, "generation") == {**OPEN, "generation": 1}


def test_policy_and_url_at_once_close_the_breaker_once():
    row = troubled()
    update_endpoint(tenant(), row, {"policy": "strict", "url": "https://other.customer.com/"})
    assert [action for action, _ in audited()] == ["webhook.breaker_closed", "webhook.updated"]


@pytest.mark.parametrize("breaker", ["open", "half_open"])
def test_resuming_closes_the_breaker_and_forgives_nothing_else(breaker):
    row = troubled()
    EndpointState.objects.update(breaker=breaker)
    resumed = resume(tenant(), row)
    assert state(*CLOSED) == CLOSED
    assert state(*FAILING, *COUNTS) == {**FAILING, **COUNTS, "window": 4}
    assert (state("generation"), resumed.revision) == ({"generation": 2}, row.revision + 1)
    assert audited() == [("webhook.breaker_closed", {"reason": "timeout", "cause": "resumed"})]
    resume(tenant(), row)
    assert len(audited()) == 1


def test_resuming_ends_pause_and_open_breaker_at_once():
    row = troubled()
    pause(tenant(), row)
    resume(tenant(), row)
    assert state("breaker", "paused_at", "enabled") == {
        "breaker": "closed",
        "paused_at": None,
        "enabled": True,
    }
    assert [action for action, _ in audited()] == [
        "webhook.paused",
        "webhook.resumed",
        "webhook.breaker_closed",
    ]


def test_resuming_what_is_merely_paused_begins_no_new_life():
    row = make_endpoint(policy="exponential")
    EndpointState.objects.update(window=2)
    pause(tenant(), row)
    resume(tenant(), row)
    assert state("generation", "window") == {"generation": 1, "window": 2}


def test_a_breaker_that_is_closed_by_hand_wakes_the_path(rung, django_capture_on_commit_callbacks):
    row = troubled()
    with django_capture_on_commit_callbacks(execute=True):
        resume(tenant(), row)
    assert rung == [row.pk]


@pytest.mark.parametrize("act", [resume, lambda by, row: update_endpoint(by, row, {"policy": "strict"})])
def test_whoever_listens_hears_of_it_after_the_commit(act, django_capture_on_commit_callbacks):
    row, heard = troubled(), []

    def listen(*, endpoint_id, state, reason, **_):
        heard.append((endpoint_id, state, reason))

    breaker_changed.connect(listen)
    try:
        with django_capture_on_commit_callbacks() as callbacks:
            act(tenant(), row)
        assert heard == []
        for callback in callbacks:
            callback()
    finally:
        breaker_changed.disconnect(listen)
    assert heard == [(row.public_id, "closed", "timeout")]
