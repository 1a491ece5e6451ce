"""Keys in URLs and in what is selected, which no row can have: no page breaks on them."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from tests.admin import rows
from tests.admin.pages import list_url, page_url
from webhooks_app.models import Delivery, Tenant

pytestmark = pytest.mark.django_db
TABLES = apps.get_app_config("webhooks_app").get_models()
MODELS = [each._meta.model_name for each in TABLES if admin.site.is_registered(each)]
ACTIONS = [
    (model, action)
    for model, actions in {
        "delivery": ("send_again", "send_once", "cancel_selected"),
        "endpoint": ("pause_selected", "test_selected", "delete_selected"),
        "outboxentry": ("release_selected",),
        "job": ("cancel_selected",),
        "apikey": ("revoke_selected",),
        "tenant": ("delete_selected",),
        "partner": ("delete_selected",),
    }.items()
    for action in actions
]
STRANGE = ["x", "\x00", "", "9" * 30, "9" * 5000, "-", "1,2"]


@pytest.mark.parametrize("page", ["change", "delete", "history"])
@pytest.mark.parametrize("model", MODELS)
def test_there_is_no_page_of_a_nul(boss: Client, model: str, page: str) -> None:
    url = reverse(f"admin:webhooks_app_{model}_{page}", args=["x"]).replace("/x/", "/%00/")
    assert boss.get(url).status_code in ({403, 404} if page == "delete" else {404})


@pytest.mark.parametrize("given", STRANGE)
@pytest.mark.parametrize(("model", "action"), ACTIONS)
@pytest.mark.parametrize("more", [{"index": "0"}, {}], ids=["of the list", "confirmed"])
def test_what_is_no_key_is_not_selected(
    boss: Client, model: str, action: str, given: str, more: dict[str, Any]
) -> None:
    asked = {"action": action, ACTION_CHECKBOX_NAME: given, **more}
    answer = boss.post(list_url(model), asked, follow=True)
    assert answer.status_code == 200
    assert "done." not in answer.content.decode()


def test_what_is_selected_besides_is_acted_upon(boss: Client) -> None:
    job = rows.delivery(rows.endpoint())
    asked = {"action": "cancel_selected", ACTION_CHECKBOX_NAME: ["x", str(job.pk), "\x00"], "index": "0"}
    boss.post(list_url("delivery"), asked)
    assert Delivery.objects.get(pk=job.pk).state == "cancelled"


@pytest.mark.parametrize("partner", ["\x00", "nobody", "x" * 500])
def test_a_tenant_of_no_partner_is_refused(boss: Client, partner: str) -> None:
    answer = boss.post(reverse("admin:webhooks_app_tenant_add"), {"id": "acme", "partner": partner})
    assert answer.status_code == 200
    assert not Tenant.objects.exists()


def test_an_unknown_key_is_told_as_everywhere_in_the_admin(boss: Client) -> None:
    assert boss.get(page_url("tenant", "nobody")).status_code == 302
