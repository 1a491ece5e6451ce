"""Health in the admin: the list and the page tell it, and no form that was open meanwhile undoes it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin import rows
from tests.admin.pages import fields_of, list_url, listed, page_url
from webhooks_app.admin.endpoint_columns import EndpointColumns
from webhooks_app.models import AuditEntry, Endpoint, EndpointState

pytestmark = pytest.mark.django_db

AT = datetime(2026, 10, 1, 12, 30, 15, tzinfo=UTC)
TROUBLE = {
    "breaker": "open",
    "breaker_at": AT,
    "breaker_error": "timeout",
    "breaker_successes": 1,
    "probe_at": AT + timedelta(seconds=30),
    "probe_until": AT + timedelta(seconds=60),
    "consecutive_failures": 31,
    "first_failure_at": AT,
    "last_failure_at": AT,
    "failing_from": AT,
    "warnings": 1,
    "health_warning": "redirect",
    "last_error": "timeout",
    "latency_ms": 480,
    "window": 1,
    "delivered": 1204,
    "retried": 3,
    "failed": 2,
    "dead_lettered": 5,
    "owner": "node-1-3f2a9c1b",
    "owner_until": timezone.now() + timedelta(days=1),
}
COUNTS = "1,204 / 3 / 2 / 5"


def troubled(**values: Any) -> Endpoint:
    """An endpoint in trouble, as the path leaves it."""
    endpoint = rows.endpoint(policy="exponential")
    EndpointState.objects.filter(pk=endpoint.pk).update(**{**TROUBLE, **values})
    return endpoint


def text(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def test_the_list_tells_of_breaker_warnings_and_counts(boss: Client) -> None:
    troubled()
    page = text(boss, list_url("endpoint"))
    for told in (
        "open: timeout",
        "since 2026-10-01 12:30",
        "next probe 2026-10-01 12:30:45",
        "1× failing, redirect",
        "node-1-3f2a9c1b",
        COUNTS,
    ):
        assert told in page, told


def test_the_list_of_those_in_trouble(boss: Client) -> None:
    open_one, half_open, warned = troubled(), troubled(breaker="half_open"), troubled(breaker="closed")
    fine = rows.endpoint()
    assert listed(boss, "endpoint", situation="breaker open") == [half_open.pk, open_one.pk]
    assert listed(boss, "endpoint", situation="warned") == [warned.pk, half_open.pk, open_one.pk]
    assert fine.pk in listed(boss, "endpoint")


def test_the_page_tells_all_of_it(boss: Client) -> None:
    endpoint = troubled()
    now = timezone.now()
    job = rows.delivery(endpoint, due_at=now - timedelta(seconds=100))
    rows.attempt(job, created_at=now, error="timeout", duration_ms=15_000)
    rows.attempt(job, created_at=now, number=2, status="succeeded", error="", duration_ms=40)
    page = text(boss, page_url("endpoint", endpoint.pk))
    for told in (
        "open: timeout, since 2026-10-01 12:30, next probe 2026-10-01 12:30:45, 1 good in a row",
        "1× failing, redirect",
        "its policy never disables",
        "50.0% of 2 since",
        "now 480 ms, p50 40 ms, p95 15,000 ms, p99 15,000 ms",
        "1× timeout, ",
        "node-1-3f2a9c1b",
        "1, due for 1",
        COUNTS,
        "timeout, 2026-10-01 12:30",
    ):
        assert told in page, told


def test_the_page_of_a_new_endpoint(boss: Client) -> None:
    page = text(boss, page_url("endpoint", rows.endpoint().pk))
    for told in ("closed", "nobody just now", "0 / 0 / 0 / 0", "0%"):
        assert told in page, told


def test_a_half_open_breaker(boss: Client) -> None:
    page = text(boss, page_url("endpoint", troubled(breaker="half_open", probe_at=None).pk))
    assert "half-open: timeout, since 2026-10-01 12:30, 1 good in a row" in page


def test_what_a_page_costs(boss: Client, django_assert_max_num_queries: Any) -> None:
    url = page_url("endpoint", troubled().pk)
    boss.get(url)
    # Session, user, the endpoint, its secrets, five questions of status and health, the clock twice.
    with django_assert_max_num_queries(12):
        boss.get(url)


@pytest.mark.parametrize("closed", [{"disabled_reason": "failing"}, {"disabled_reason": "gone"}])
def test_a_form_that_was_open_meanwhile_neither_enables_nor_undoes_what_the_path_wrote(
    boss: Client, closed: dict[str, str]
) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    opened = fields_of(text(boss, url), description="for the night job")
    assert opened["enabled"] == "on"
    EndpointState.objects.update(**TROUBLE, **closed, enabled=False, disabled_at=AT, generation=7)
    before = EndpointState.objects.values().get()
    assert boss.post(url, opened).status_code == 302
    assert EndpointState.objects.values().get() == before
    endpoint.refresh_from_db()
    assert endpoint.description == "for the night job"
    assert AuditEntry.objects.latest("id").action == "webhook.updated"


def test_whoever_touches_the_switch_of_such_a_form_is_told(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    opened = fields_of(text(boss, url))
    del opened["enabled"]
    EndpointState.objects.update(enabled=False, disabled_reason="failing", disabled_at=AT)
    answer = boss.post(url, opened)
    assert "Somebody changed this" in str(answer.context["adminform"].form.errors["enabled"])
    assert EndpointState.objects.get().disabled_reason == "failing"


@pytest.mark.parametrize(
    "action",
    [
        "webhook.breaker_opened",
        "webhook.breaker_half_opened",
        "webhook.breaker_closed",
        "webhook.warned",
        "webhook.recovered",
    ],
)
def test_what_the_path_did_is_in_the_audit(boss: Client, action: str) -> None:
    endpoint = rows.endpoint()
    entry = AuditEntry.objects.create(
        public_id="aud_01M8N0FP2Q136B496AJ9N55VBT",
        action=action,
        actor_kind="system",
        actor_id="deliveries",
        target_type="webhook",
        target_id=endpoint.public_id,
        tenant_id="acme",
        details={"reason": "timeout"},
        created_at=AT,
    )
    assert listed(boss, "auditentry", q=endpoint.public_id)[0] == entry.pk
    assert action in text(boss, list_url("auditentry"))
    assert "timeout" in text(boss, page_url("auditentry", entry.pk))


@pytest.mark.parametrize(("most", "shown"), [(3, 3), (8, 7)])
def test_the_window_is_no_wider_than_the_endpoints_own_limit(most: int, shown: int) -> None:
    troubled(window=7)
    Endpoint.objects.update(max_in_flight=most)
    assert EndpointColumns().window(Endpoint.objects.get()) == shown
