"""Tenants and partners are plain rows of the delivery database."""

from typing import Any

import pytest
from django.test import Client

from tests.admin.pages import listed, page_url
from webhooks_app.models import Partner, Tenant

ADD_TENANT = "/admin/webhooks_app/tenant/add/"
ADD_PARTNER = "/admin/webhooks_app/partner/add/"


@pytest.mark.django_db
def test_they_are_added_and_changed(boss: Client) -> None:
    assert boss.post(ADD_PARTNER, {"id": "umbrella"}).status_code == 302
    sent = {"id": "acme", "partner": "umbrella", "retention_days": "7"}
    assert boss.post(ADD_TENANT, sent).status_code == 302
    suspended = {"suspended_at_0": "2026-10-01", "suspended_at_1": "12:00:00"}
    sent = {"id": "other", "partner": "", "retention_days": "9", **suspended}
    assert boss.post(page_url("tenant", "acme"), sent).status_code == 302
    [row] = Tenant.objects.all()
    assert (row.id, row.partner_id, row.retention_days) == ("acme", None, 9)
    assert row.suspended_at is not None


@pytest.mark.django_db
def test_a_double_or_an_unknown_partner_is_refused(boss: Client) -> None:
    Tenant.objects.create(id="acme", retention_days=7)
    for sent in ({"id": "acme"}, {"id": "new", "partner": "nobody"}):
        answer = boss.post(ADD_TENANT, sent)
        assert answer.status_code == 200
        assert answer.context["adminform"].form.errors
    assert Tenant.objects.get().retention_days == 7


@pytest.mark.django_db(databases=["default", "second"])
def test_the_delivery_database_may_be_another_one(boss: Client, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "DATABASE": "second"}
    Partner.objects.using("second").create(id="umbrella")
    Tenant.objects.using("second").create(id="acme")
    assert boss.post(ADD_TENANT, {"id": "birch", "partner": "umbrella"}).status_code == 302
    assert boss.post(ADD_TENANT, {"id": "acme"}).status_code == 200
    assert Tenant.objects.using("second").get(id="birch").partner_id == "umbrella"
    assert not Tenant.objects.using("default").exists()
    assert listed(boss, "tenant") == ["birch", "acme"]
    assert listed(boss, "tenant", q="umbrella") == ["birch"]
