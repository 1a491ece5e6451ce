"""What a session of the staff may do through the API: what Django lets the same person do in the admin."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from tests.api import rows
from tests.api.client import Api
from tests.api.every import ALL, HOSTS, Call, call_nobody, ids_of
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.django_db

NEEDS = {
    "createEvent": {"add_event"},
    "createEvents": {"add_event"},
    "listEvents": {"view_event"},
    "getEvent": {"view_event"},
    "listEventTypes": {"view_endpoint"},
    "matchWebhooks": {"view_endpoint"},
    "createWebhook": {"add_endpoint"},
    "listWebhooks": {"view_endpoint"},
    "getWebhook": {"view_endpoint"},
    "updateWebhook": {"change_endpoint"},
    "deleteWebhook": {"delete_endpoint"},
    "listWebhookHealth": {"view_endpoint"},
    "getWebhookHealth": {"view_endpoint"},
    "getWebhookStatus": {"view_endpoint"},
    "rotateWebhookSecret": {"change_endpoint"},
    "testWebhook": {"change_endpoint"},
    "replayWebhook": {"change_endpoint"},
    "recoverWebhook": {"change_endpoint"},
    "listMissedEvents": {"view_endpoint"},
    "pauseWebhook": {"change_endpoint"},
    "resumeWebhook": {"change_endpoint"},
    "listWebhookDeliveries": {"view_delivery"},
    "listWebhookAttempts": {"view_attempt", "view_endpoint"},
    "listDeliveries": {"view_delivery"},
    "getDelivery": {"view_delivery"},
    "resendDelivery": {"change_endpoint", "view_delivery"},
    "cancelDelivery": {"change_endpoint", "view_delivery"},
    "retryDeliveries": {"change_endpoint"},
    "getAttempt": {"view_attempt", "view_endpoint"},
    "listJobs": {"view_job"},
    "getJob": {"view_job"},
    "cancelJob": {"change_endpoint", "view_job"},
    "listAudit": {"view_auditentry"},
}
CALLS = list({call.operation: call for call in ALL}.values())
OTHERS = [f"{verb}_{model}" for verb in ("view", "add", "change", "delete") for model in ("tenant", "apikey")]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    call_nobody(monkeypatch)
    settings.WEBHOOKS = {**settings.WEBHOOKS, "STATIC_HOSTS": HOSTS}


@pytest.fixture
def clerk(tenants: None) -> Callable[..., Client]:
    """Return a function that signs a new member of the staff in, with exactly these permissions."""

    def sign_in(*permissions: str) -> Client:
        user = User.objects.create_user(f"clerk{User.objects.count()}", is_staff=True)
        found = Permission.objects.filter(codename__in=permissions, content_type__app_label="webhooks_app")
        user.user_permissions.set(found)
        client = Client(raise_request_exception=False)
        client.force_login(user)
        return client

    return sign_in


def send(client: Client, call: Call) -> Any:
    ids = ids_of(rows.endpoint("a"))
    path = call.path.format(id=ids.get(call.noun, ""))
    return Api(client=client).send(call.method, path, call.body, call.media_type)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.operation)
def test_each_operation_takes_what_the_admin_takes(clerk: Callable[..., Client], call: Call) -> None:
    needed = NEEDS[call.operation]
    done = send(clerk(*needed), call)
    assert done.status_code < 300, done.content
    everything = set().union(*NEEDS.values()) | set(OTHERS)
    for name in needed:
        # Changing includes viewing, so who lacks the one must lack the other.
        lacking = {name, name.replace("view_", "change_")}
        refused = send(clerk(*(everything - lacking)), call)
        assert refused.status_code == 403
        assert f"webhooks_app.{name}" in refused.json()["details"]["required"]


def test_there_is_no_other_operation() -> None:
    assert {call.operation for call in ALL} == set(NEEDS)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.operation)
def test_being_staff_alone_is_nothing(clerk: Callable[..., Client], call: Call) -> None:
    refused = send(clerk(), call)
    assert refused.status_code == 403
    assert refused.json()["details"]["required"] == sorted(
        f"webhooks_app.{name}" for name in NEEDS[call.operation]
    )


def test_changing_includes_viewing(clerk: Callable[..., Client]) -> None:
    assert Api(client=clerk("change_endpoint")).get("/webhooks").status_code == 200


def test_the_admin_and_the_api_agree_about_an_editor(clerk: Callable[..., Client]) -> None:
    editor = clerk(
        "view_endpoint", "change_endpoint", "add_endpoint", "view_delivery", "view_event", "view_job"
    )
    endpoint = rows.endpoint("a")
    page = reverse("admin:webhooks_app_endpoint_delete", args=[endpoint.pk])
    audit = reverse("admin:webhooks_app_auditentry_changelist")
    assert [editor.get(page).status_code, editor.get(audit).status_code] == [403, 403]
    answers = Api(client=editor).delete(f"/webhooks/{endpoint.public_id}"), Api(client=editor).get("/audit")
    assert [each.status_code for each in answers] == [403, 403]
    assert Endpoint.objects.filter(deleted_at__isnull=True).count() == 1
