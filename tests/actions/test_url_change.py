"""With URL_CHANGE "disable" nothing leaves for a new URL before a test has reached it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.actions.builders import make_delivery, tenant, together
from tests.actions.receiving import Receiver
from webhooks_app.actions import test_send as sending
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.destinations import https
from webhooks_app.exceptions import Conflict, InvalidRequest, NotFound
from webhooks_app.models import Attempt, AuditEntry, Delivery, Endpoint, EndpointState

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def careful(network: Any) -> None:
    network(URL_CHANGE="disable")


@pytest.fixture
def moved(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose URL was changed."""
    return move(endpoint)


def move(endpoint: Endpoint, name: str = "new", **changes: Any) -> Endpoint:
    """Change the host of the URL; the port stays that of the receiver."""
    host, port = f"{name}.customer.com", endpoint.url.rpartition(":")[2]
    return update_endpoint(tenant(), endpoint, {"url": f"http://{host}:{port}", **changes})


def state() -> EndpointState:
    return EndpointState.objects.get()


def audited() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[1:]


def test_a_new_url_disables(moved: Endpoint) -> None:
    row = state()
    assert (row.enabled, row.disabled_reason, row.generation) == (False, "url_changed", 2)
    assert row.disabled_at is not None
    assert audited() == ["webhook.disabled", "webhook.updated"]
    details = AuditEntry.objects.latest("id").details["host"]
    assert details["new"].startswith("new.customer.com")
    assert details["old"].startswith("hooks.customer.com")


def test_other_changes_and_the_same_url_do_not(endpoint: Endpoint) -> None:
    update_endpoint(tenant(), endpoint, {"url": endpoint.url, "description": "x", "method": "PUT"})
    assert state().enabled


def test_only_a_test_enables_again(moved: Endpoint) -> None:
    for attempt in (
        lambda: enable(tenant(), moved),
        lambda: update_endpoint(tenant(), moved, {"enabled": True}),
    ):
        with pytest.raises(InvalidRequest) as caught:
            attempt()
        [(path, message)] = caught.value.errors
        assert path == "enabled"
        assert "test" in message
    assert not state().enabled


def test_one_request_cannot_change_the_url_and_enable(endpoint: Endpoint) -> None:
    with pytest.raises(InvalidRequest):
        move(endpoint, enabled=True)
    assert Endpoint.objects.get().url == endpoint.url
    assert state().enabled


def test_a_test_that_arrives_enables_wakes_and_is_audited(
    moved: Endpoint, rung: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    EndpointState.objects.update(consecutive_failures=3)
    with django_capture_on_commit_callbacks(execute=True):
        attempt = sending.test_send(tenant(), moved)
    row = state()
    assert (row.enabled, row.disabled_reason, row.disabled_at) == (True, None, None)
    assert (row.consecutive_failures, row.generation) == (0, 3)
    assert audited()[2:] == ["webhook.tested", "webhook.enabled"]
    details = AuditEntry.objects.latest("id").details
    assert details == {"disabled_reason": "url_changed", "attempt": attempt.public_id}
    assert rung == [moved.pk]
    assert Endpoint.objects.get().revision == moved.revision + 1


@pytest.mark.parametrize("status", [302, 404, 410, 500])
def test_a_test_that_fails_enables_nothing(moved: Endpoint, receiver: Receiver, status: int) -> None:
    receiver.status = status
    before = EndpointState.objects.values().get()
    sending.test_send(tenant(), moved)
    assert EndpointState.objects.values().get() == before
    receiver.status = 204
    sending.test_send(tenant(), moved)
    assert state().enabled


def test_a_test_of_the_url_before_confirms_nothing(moved: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    send = https.send

    def meanwhile(config: Any, message: Any) -> Any:
        move(moved, "newer")
        return send(config, message)

    monkeypatch.setattr(https, "send", meanwhile)
    assert sending.test_send(tenant(), moved).status == "succeeded"
    assert (state().enabled, state().disabled_reason) == (False, "url_changed")


def test_deleted_while_the_test_was_under_way(moved: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    send = https.send

    def meanwhile(config: Any, message: Any) -> Any:
        delete_endpoint(tenant(), moved)
        return send(config, message)

    monkeypatch.setattr(https, "send", meanwhile)
    with pytest.raises(NotFound):
        sending.test_send(tenant(), moved)
    assert Attempt.objects.count() == 1


def test_who_was_disabled_before_must_confirm_too(endpoint: Endpoint) -> None:
    # Otherwise: disable, change the URL, enable.
    disable(tenant(), endpoint)
    since = state().disabled_at
    move(endpoint)
    assert (state().disabled_reason, state().disabled_at) == ("url_changed", since)
    with pytest.raises(InvalidRequest):
        enable(tenant(), endpoint)


def test_disabling_what_waits_does_not_help_either(moved: Endpoint) -> None:
    update_endpoint(tenant(), moved, {"enabled": False})
    assert state().disabled_reason == "url_changed"


def test_a_second_new_url_is_one_disabling(moved: Endpoint) -> None:
    move(moved, "newer")
    assert audited() == ["webhook.disabled", "webhook.updated", "webhook.updated"]


def test_the_operators_choice_may_change_meanwhile(moved: Endpoint, network: Any) -> None:
    network(URL_CHANGE="keep")
    with pytest.raises(InvalidRequest):
        enable(tenant(), moved)
    sending.test_send(tenant(), moved)
    assert state().enabled


def test_open_deliveries_wait_for_the_test(endpoint: Endpoint) -> None:
    later = timezone.now() + timedelta(hours=8)
    job = make_delivery(endpoint, due_at=later)
    with pytest.raises(Conflict):
        move(endpoint)
    move(endpoint, retarget_pending=True)
    assert Delivery.objects.get(pk=job.pk).due_at == later
    sending.test_send(tenant(), endpoint)
    now_due = Delivery.objects.get(pk=job.pk).due_at
    assert now_due is not None
    assert now_due <= timezone.now()


@pytest.mark.parametrize("reason", ["manual", "failing", "gone", "consumer"])
def test_a_test_moves_nothing_on_those_disabled_for_another_reason(endpoint: Endpoint, reason: str) -> None:
    disable(tenant(), endpoint, reason=reason)
    before = EndpointState.objects.values().get()
    assert sending.test_send(tenant(), endpoint).status == "succeeded"
    assert EndpointState.objects.values().get() == before
    enable(tenant(), endpoint)
    assert state().enabled


def test_without_the_choice_a_new_url_is_used_at_once(endpoint: Endpoint, network: Any) -> None:
    network(URL_CHANGE="keep")
    move(endpoint)
    assert state().enabled


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_several_tests_at_once_enable_once(moved: Endpoint) -> None:
    results = together(*[lambda: sending.test_send(tenant(), moved)] * 4)
    assert [result.status for result in results] == ["succeeded"] * 4
    assert state().enabled
    assert audited().count("webhook.enabled") == 1
