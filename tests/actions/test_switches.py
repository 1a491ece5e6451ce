"""Enable, disable, pause and resume: idempotent, audited, each with its own consequences."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_endpoint, tenant, together
from webhooks_app.actions.delete_endpoint import delete_endpoint
from webhooks_app.actions.disable import disable
from webhooks_app.actions.enable import enable
from webhooks_app.actions.pause import pause
from webhooks_app.actions.resume import resume
from webhooks_app.exceptions import InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, EndpointState

pytestmark = pytest.mark.django_db

ALL = [enable, disable, pause, resume]


def audited() -> list[str]:
    return list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[1:]


def test_disable_keeps_its_reason_when_repeated():
    row = make_endpoint()
    disable(tenant(), row, reason="consumer")
    disable(tenant(), row)
    state = EndpointState.objects.get()
    assert (state.enabled, state.disabled_reason, state.generation) == (False, "consumer", 2)
    assert state.disabled_at is not None
    assert audited() == ["webhook.disabled"]


def test_disable_knows_its_reasons():
    with pytest.raises(InvalidRequest):
        disable(tenant(), make_endpoint(), reason="bored")


def test_enable_forgets_the_failures_of_the_life_before():
    row = make_endpoint()
    soon = timezone.now() + timedelta(hours=1)
    EndpointState.objects.update(
        enabled=False,
        disabled_reason="failing",
        disabled_at=soon,
        consecutive_failures=100,
        first_failure_at=soon,
        hold_until=soon,
        window=1,
    )
    enable(tenant(), row)
    state = EndpointState.objects.get()
    assert state.enabled
    assert (state.disabled_reason, state.disabled_at, state.hold_until) == (None, None, None)
    assert (state.consecutive_failures, state.first_failure_at) == (0, None)
    assert (state.window, state.generation) == (4, 2)
    assert AuditEntry.objects.latest("id").details == {"disabled_reason": "failing"}


def test_enabling_an_enabled_endpoint_does_not_clear_its_failures():
    row = make_endpoint()
    EndpointState.objects.update(consecutive_failures=99)
    enable(tenant(), row)
    state = EndpointState.objects.get()
    assert (state.consecutive_failures, state.generation) == (99, 1)
    assert audited() == []


def test_pause_and_resume():
    row = make_endpoint()
    pause(tenant(), row)
    first = EndpointState.objects.get().paused_at
    pause(tenant(), row)
    assert first is not None
    assert EndpointState.objects.get().paused_at == first
    resume(tenant(), row)
    resume(tenant(), row)
    assert EndpointState.objects.get().paused_at is None
    assert audited() == ["webhook.paused", "webhook.resumed"]


@pytest.mark.parametrize(("before", "switch"), [(disable, enable), (enable, disable), (pause, resume)])
def test_the_path_is_woken(before, switch, rung, django_capture_on_commit_callbacks):
    row = make_endpoint()
    before(tenant(), row)
    with django_capture_on_commit_callbacks(execute=True):
        switch(tenant(), row)
    assert rung == [row.pk]


@pytest.mark.parametrize("switch", [enable, disable])
def test_the_revision_rises_with_the_state(switch):
    row = make_endpoint()
    if switch is enable:
        disable(tenant(), row)
        row.refresh_from_db()
    assert switch(tenant(), row).revision == row.revision + 1


@pytest.mark.parametrize("switch", ALL)
def test_foreign_and_deleted_endpoints_do_not_exist(switch):
    row = make_endpoint()
    with pytest.raises(NotFound):
        switch(tenant("other"), row)
    delete_endpoint(OPERATOR, row)
    with pytest.raises(NotFound):
        switch(tenant(), row)


@pytest.mark.parametrize("switch", ALL)
def test_without_the_permission_nothing_happens(switch):
    with pytest.raises(PermissionDenied):
        switch(tenant(permissions=frozenset()), make_endpoint())


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_disable_and_enable_at_once_leave_one_of_both_whole():
    row = make_endpoint()
    for _ in range(10):
        together(lambda: disable(tenant(), row), lambda: enable(tenant(), row))
        state = EndpointState.objects.get()
        whole = (True, None, None) if state.enabled else (False, "manual", state.disabled_at)
        assert (state.enabled, state.disabled_reason, state.disabled_at) == whole
        assert state.enabled or state.disabled_at is not None
    assert state.generation == 1 + len(audited())
