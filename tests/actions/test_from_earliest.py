"""Registering with the past: what is kept is counted before anybody has to wait for the registration."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.actions.builders import OPERATOR, URL, make_event, tenant
from tests.actions.jobs import counts, finished
from webhooks_app.actions import jobs
from webhooks_app.actions.register_endpoint import register_endpoint
from webhooks_app.exceptions import InvalidRequest
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret, EndpointState, Job

pytestmark = pytest.mark.django_db

SCOPES = [{"tenant_id": "acme"}, {"partner_id": "umbrella"}, {}]


@pytest.mark.parametrize("scope", SCOPES)
def test_no_lock_is_held_while_the_events_are_counted(scope: dict[str, str]) -> None:
    with CaptureQueriesContext(connection) as queries:
        register_endpoint(OPERATOR, url=URL, events=["*"], earliest=True, **scope)
    statements = [query["sql"] for query in queries]
    counted = [n for n, sql in enumerate(statements) if "COUNT(" in sql and "webhooks_app_event" in sql]
    locked = [n for n, sql in enumerate(statements) if "webhooks_app_pipelinelock" in sql]
    assert len(counted) == 1
    assert counted[0] < locked[0]


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_counted_is_what_the_endpoint_gets(scope: dict[str, str]) -> None:
    wanted = {"type": "order.paid", "partner_id": "umbrella", "identity_id": "a"}
    make_event(**wanted), make_event(**wanted)
    make_event(**{**wanted, "type": "invoice.paid"}), make_event(**{**wanted, "identity_id": "b"})
    make_event(**wanted, environment="test"), make_event(**wanted, replay_of=1)
    make_event(**wanted, fanned_out_at=None)
    register_endpoint(
        OPERATOR, url=URL, events=["order.*"], identity_ids=["a"], environment="live", earliest=True, **scope
    )
    job = Job.objects.get()
    assert counts(job) == ("queued", 2, 0, 0)
    assert counts(finished(job)) == ("succeeded", 2, 2, 0)


def test_too_many_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_TOTAL", 2)
    for _ in range(3):
        make_event()
    with pytest.raises(InvalidRequest) as caught:
        register_endpoint(tenant(), url=URL, events=["*"], earliest=True)
    assert [path for path, _ in caught.value.errors] == ["from"]
    for model in (Endpoint, EndpointState, EndpointSecret, Job, AuditEntry):
        assert not model.objects.exists()
    register_endpoint(tenant(), url=URL, events=["*"])
