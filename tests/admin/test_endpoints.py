"""Endpoints in the admin: every change is an action, audited; a stale form undoes nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connections
from django.test import Client
from django.urls import resolve, reverse

from tests.admin import rows
from tests.admin.pages import fields_of, list_url, listed, missed_url, page_url, retry_url, verb_url
from webhooks_app.actions.pause import pause
from webhooks_app.actions.update_endpoint import update_endpoint
from webhooks_app.models import AuditEntry, Endpoint, EndpointSecret, EndpointState

pytestmark = pytest.mark.django_db
ADD = "/admin/webhooks_app/endpoint/add/"
NEW = {"url": "https://new.customer.com/in", "events": "order.*\ninvoice.paid", "tenant_id": "birch"}


def form(client: Client, url: str, /, **changes: Any) -> dict[str, Any]:
    """Return what the browser would send from a page, with some fields changed."""
    return fields_of(client.get(url).content.decode(), **changes)


def fresh(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint as it is now."""
    return Endpoint.objects.select_related("state").get(pk=endpoint.pk)


def actions_of(endpoint: Endpoint) -> list[str]:
    """Return what the audit says happened."""
    found = AuditEntry.objects.filter(target_id=endpoint.public_id).order_by("id")
    return [each.action for each in found]


def test_registering_is_the_action(boss: Client) -> None:
    headers = [{"name": "X-Team", "value": "blue"}, {"name": "X-Key", "value": "hush", "secret": True}]
    answer = boss.post(
        ADD, form(boss, ADD, **NEW, headers=json.dumps(headers), policy_overrides='{"waits": [5]}')
    )
    assert answer.status_code == 200, answer.content.decode()
    [made] = Endpoint.objects.all()
    assert (made.url, made.tenant_id, made.events) == (NEW["url"], "birch", ["order.*", "invoice.paid"])
    assert made.policy_overrides == {"waits": [5]}
    assert made.identity_ids is None
    assert [each["name"] for each in made.headers] == ["X-Team", "X-Key"]
    assert actions_of(made) == ["webhook.registered"]
    [entry] = AuditEntry.objects.all()
    assert entry.actor_kind == "staff"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"url": "http://new.customer.com/"}, "url"),
        ({"url": "https://localhost/"}, "url"),
        ({"events": "order.*.x"}, "events"),
        ({"headers": '[{"name": "webhook-id", "value": "1"}]'}, "headers"),
        ({"headers": "{"}, "headers"),
        ({"policy_overrides": '{"waits": [0]}'}, "policy_overrides"),
        ({"identity_ids": '{"a": 1}'}, "identity_ids"),
        ({"max_in_flight": "0"}, "max_in_flight"),
        ({"partner_id": "umbrella"}, "partner_id"),
    ],
)
def test_a_refused_value_is_told_at_its_field(boss: Client, changes: dict[str, str], field: str) -> None:
    answer = boss.post(ADD, form(boss, ADD, **{**NEW, **changes}))
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Endpoint.objects.exists()


def test_the_same_url_twice_is_allowed_and_told(boss: Client) -> None:
    """B037"""
    first = rows.endpoint(url=NEW["url"], tenant_id="birch")
    rows.endpoint(url=NEW["url"], tenant_id="oak")
    answer = boss.post(ADD, form(boss, ADD, **{**NEW, "url": "https://NEW.customer.com:443/in"}))
    [told] = [str(message) for message in answer.context["messages"]]
    assert told.endswith(f": {first.public_id}")
    assert Endpoint.objects.count() == 3
    assert not list(
        boss.post(ADD, form(boss, ADD, **{**NEW, "url": "https://b.customer.com/"})).context["messages"]
    )


def test_no_events_and_no_identities_mean_nothing_is_received(boss: Client) -> None:
    boss.post(ADD, form(boss, ADD, **{**NEW, "events": "", "identity_ids": "[]"}))
    [made] = Endpoint.objects.all()
    assert (made.events, made.identity_ids) == ([], [])


def test_a_change_sends_on_only_what_was_touched(boss: Client) -> None:
    endpoint = rows.endpoint(headers=[{"name": "X-Key", "value": "hush", "secret": True}])
    url = page_url("endpoint", endpoint.pk)
    answer = boss.post(url, form(boss, url, description="for the night job"))
    assert answer.status_code == 302
    after = fresh(endpoint)
    assert after.description == "for the night job"
    assert after.headers == endpoint.headers
    [_, changed] = AuditEntry.objects.filter(target_id=endpoint.public_id).order_by("id")
    assert changed.details == {"fields": ["description"]}


def test_an_untouched_form_changes_nothing(boss: Client) -> None:
    endpoint = rows.endpoint(identity_ids=["a"], policy_overrides={"waits": [1, 2]}, events=["a.b", "c.*"])
    url = page_url("endpoint", endpoint.pk)
    assert boss.post(url, form(boss, url)).status_code == 302
    assert fresh(endpoint).revision == endpoint.revision
    assert actions_of(endpoint) == ["webhook.registered"]


def test_a_stale_form_undoes_nothing(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    opened = form(boss, url, description="mine")
    update_endpoint(rows.OPERATOR, endpoint, {"events": ["order.paid"], "enabled": False, "max_in_flight": 3})
    assert boss.post(url, opened).status_code == 302
    after = fresh(endpoint)
    assert (after.description, after.events, after.max_in_flight) == ("mine", ["order.paid"], 3)
    assert not after.state.enabled


def test_two_people_who_change_the_same_field_are_told(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    opened = form(boss, url, events="mine")
    update_endpoint(rows.OPERATOR, endpoint, {"events": ["theirs"]})
    answer = boss.post(url, opened)
    assert list(answer.context["adminform"].form.errors) == ["events"]
    assert fresh(endpoint).events == ["theirs"]


def test_a_form_without_its_memory_changes_nothing(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    sent = {name: value for name, value in form(boss, url).items() if not name.startswith("initial-")}
    assert boss.post(url, sent).status_code == 200
    assert fresh(endpoint).revision == endpoint.revision


def test_a_new_url_with_open_deliveries_needs_a_word(boss: Client) -> None:
    endpoint = rows.endpoint()
    rows.delivery(endpoint)
    url = page_url("endpoint", endpoint.pk)
    answer = boss.post(url, form(boss, url, url="https://moved.customer.com/"))
    assert "still open" in answer.content.decode()
    assert fresh(endpoint).url == rows.URL
    boss.post(url, form(boss, url, url="https://moved.customer.com/", retarget_pending="on"))
    assert fresh(endpoint).url == "https://moved.customer.com/"


def test_enabled_is_a_switch_of_the_form(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    sent = form(boss, url)
    assert sent.pop("enabled") == "on"
    boss.post(url, sent)
    assert fresh(endpoint).state.disabled_reason == "manual"
    boss.post(url, form(boss, url, enabled="on"))
    assert fresh(endpoint).state.enabled


@pytest.mark.parametrize(
    ("action", "audited"),
    [
        ("disable_selected", "webhook.disabled"),
        ("pause_selected", "webhook.paused"),
        ("enable_selected", "webhook.enabled"),
        ("resume_selected", "webhook.resumed"),
    ],
)
def test_switches_of_the_list_are_actions(boss: Client, action: str, audited: str) -> None:
    endpoints = [rows.endpoint(), rows.endpoint()]
    if action == "enable_selected":
        EndpointState.objects.update(enabled=False, disabled_reason="failing")
    if action == "resume_selected":
        for each in endpoints:
            pause(rows.OPERATOR, each)
    sent = {"action": action, "_selected_action": [each.pk for each in endpoints]}
    answer = boss.post(list_url("endpoint"), sent, follow=True)
    assert "2 done." in answer.content.decode()
    assert [actions_of(each)[-1] for each in endpoints] == [audited, audited]


def test_too_many_at_once_are_refused(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhooks_app.admin.endpoints.MAX_SWITCHED", 1)
    endpoints = [rows.endpoint(), rows.endpoint()]
    sent = {"action": "pause_selected", "_selected_action": [each.pk for each in endpoints]}
    assert "at most 1" in boss.post(list_url("endpoint"), sent, follow=True).content.decode()
    assert fresh(endpoints[0]).state.paused_at is None


def test_deleting_is_the_action_and_keeps_the_evidence(boss: Client) -> None:
    endpoint = rows.endpoint()
    job = rows.delivery(endpoint)
    url = reverse("admin:webhooks_app_endpoint_delete", args=[endpoint.pk])
    assert "S3CRET" not in boss.get(url).content.decode()
    boss.post(url, {"post": "yes"})
    assert fresh(endpoint).deleted_at is not None
    assert not EndpointSecret.objects.exists()
    job.refresh_from_db()
    assert (job.state, job.last_error) == ("dead_lettered", "endpoint_deleted")
    assert actions_of(endpoint)[-1] == "webhook.deleted"


def test_many_are_deleted_by_the_action(boss: Client) -> None:
    endpoints = [rows.endpoint(), rows.endpoint()]
    sent = {"action": "delete_selected", "_selected_action": [each.pk for each in endpoints], "post": "yes"}
    boss.post(list_url("endpoint"), sent)
    assert [actions_of(each)[-1] for each in endpoints] == ["webhook.deleted"] * 2
    assert listed(boss, "endpoint") == []


def test_a_deleted_endpoint_is_shown_and_cannot_be_changed(boss: Client) -> None:
    endpoint = rows.endpoint()
    Endpoint.objects.filter(pk=endpoint.pk).update(deleted_at=rows.NOW)
    url = page_url("endpoint", endpoint.pk)
    assert boss.get(url).status_code == 200
    assert boss.post(url, {"description": "x"}).status_code == 403
    assert boss.get(verb_url(endpoint.pk, "rotate-secret")).status_code == 403


def test_whoever_may_only_look_can_only_look(staff: Callable[..., Client]) -> None:
    endpoint = rows.endpoint()
    client = staff("view_endpoint")
    url = page_url("endpoint", endpoint.pk)
    page = client.get(url)
    assert page.status_code == 200
    assert '<input type="text"' not in page.content.decode()
    assert client.post(url, {"description": "x"}).status_code == 403
    assert client.get(ADD).status_code == 403
    assert client.get(verb_url(endpoint.pk, "test")).status_code == 403
    sent = {"action": "disable_selected", "_selected_action": [endpoint.pk]}
    client.post(list_url("endpoint"), sent)
    assert fresh(endpoint).state.enabled


def test_whoever_may_nothing_sees_nothing(staff: Callable[..., Client]) -> None:
    endpoint = rows.endpoint()
    client = staff()
    for url in (list_url("endpoint"), page_url("endpoint", endpoint.pk), ADD, list_url("delivery")):
        assert client.get(url).status_code == 403


@pytest.mark.parametrize(
    "path", ["/admin/webhooks_app/endpoint/99/change/", "/admin/webhooks_app/endpoint/1x/change/"]
)
def test_a_missing_endpoint_is_not_found(boss: Client, path: str) -> None:
    assert boss.get(path).status_code == 404


def test_an_unknown_verb_is_not_found(boss: Client) -> None:
    assert boss.get(verb_url(rows.endpoint().pk, "explode")).status_code == 404


def test_the_history_names_fields_and_no_values(boss: Client) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    boss.post(url, form(boss, url, url="https://moved.customer.com/S3CRET"))
    assert [each.change_message for each in LogEntry.objects.all()] == ['[{"changed": {"fields": ["url"]}}]']


def test_no_view_that_may_wait_for_the_network_is_inside_a_transaction(db: None) -> None:
    """Whatever database ATOMIC_REQUESTS is set for; the list of deliveries sends, too."""
    for url in (
        ADD,
        list_url("endpoint"),
        page_url("endpoint", 1),
        verb_url(1, "test"),
        list_url("delivery"),
        missed_url(1),
        retry_url(),
    ):
        assert resolve(url).func._non_atomic_requests == set(connections)
