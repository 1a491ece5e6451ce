"""Secrets: shown once, in the answer that made them, and nowhere else (B071, B146)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.http import HttpResponse
from django.test import Client

from tests.admin import rows
from tests.admin.pages import fields_of, list_url, page_url, verb_url
from webhooks_app.actions.api_keys import authenticate, create_api_key
from webhooks_app.destinations.sealing import open_secret
from webhooks_app.models import ApiKey, AuditEntry, Endpoint, EndpointSecret

pytestmark = pytest.mark.django_db
ADD = "/admin/webhooks_app/endpoint/add/"
ADD_KEY = "/admin/webhooks_app/apikey/add/"


def shown_secret(answer: HttpResponse) -> str:
    """Return the secret of a page that shows one, having checked that nothing else keeps it."""
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert "private" in answer["Cache-Control"]
    secret = str(answer.context["secret"])
    assert answer.content.decode().count(secret) == 1
    assert secret not in str(answer.cookies)
    assert secret not in str(answer.headers)
    return secret


def kept() -> str:
    """Return everything that the database keeps about what happened."""
    tables = (LogEntry, AuditEntry, Endpoint, EndpointSecret, ApiKey)
    return json.dumps([list(each.objects.values()) for each in tables], default=str)


def pages(client: Client, endpoint: Endpoint) -> Iterator[str]:
    """Yield every page that could show something of an endpoint."""
    for model in ("endpoint", "delivery", "attempt", "event", "auditentry", "apikey"):
        yield client.get(list_url(model)).content.decode()
    yield client.get(page_url("endpoint", endpoint.pk)).content.decode()
    for verb in ("test", "replay", "rotate-secret"):
        yield client.get(verb_url(endpoint.pk, verb)).content.decode()
    yield client.get(f"/admin/webhooks_app/endpoint/{endpoint.pk}/history/").content.decode()
    yield client.get("/admin/").content.decode()


def test_a_new_endpoints_secret_is_shown_once(boss: Client) -> None:
    sent = fields_of(boss.get(ADD).content.decode(), url="https://new.customer.com/", tenant_id="birch")
    secret = shown_secret(boss.post(ADD, sent))
    [endpoint] = Endpoint.objects.all()
    [row] = EndpointSecret.objects.all()
    assert open_secret(endpoint.public_id, 1, row.sealed) == secret
    assert secret not in kept()
    for page in pages(boss, endpoint):
        assert secret not in page
        assert row.sealed not in page
        assert "whsec_" not in page


def test_a_rotated_secret_is_shown_once(boss: Client) -> None:
    made = rows.registered()
    url = verb_url(made.endpoint.pk, "rotate-secret")
    secret = shown_secret(boss.post(url, {"overlap_hours": "24"}))
    assert secret != made.secret
    assert [row.version for row in EndpointSecret.objects.order_by("version")] == [1, 2]
    for page in pages(boss, made.endpoint):
        assert secret not in page
        assert made.secret not in page
    assert secret not in kept()


def test_opening_the_rotation_page_rotates_nothing(boss: Client) -> None:
    endpoint = rows.endpoint()
    assert boss.get(verb_url(endpoint.pk, "rotate-secret")).status_code == 200
    assert boss.post(verb_url(endpoint.pk, "rotate-secret"), {"overlap_hours": "169"}).status_code == 200
    assert EndpointSecret.objects.count() == 1


def test_a_new_api_key_is_shown_once_and_works(boss: Client) -> None:
    sent = {"name": "ci", "scope": "tenant", "scope_id": "birch", "environment": "live"}
    key = shown_secret(boss.post(ADD_KEY, {**sent, "permissions": ["webhooks:read"]}))
    actor = authenticate(key)
    assert actor is not None
    assert (actor.scope_id, actor.permissions) == ("birch", frozenset({"webhooks:read"}))
    assert key not in kept()
    [row] = ApiKey.objects.all()
    page = boss.get(page_url("apikey", row.pk)).content.decode()
    assert key not in page
    assert row.sha256 not in page


def test_a_refused_api_key_is_told_at_its_field(boss: Client) -> None:
    sent = {
        "name": "ci",
        "scope": "platform",
        "scope_id": "x",
        "environment": "live",
        "permissions": "events:write",
    }
    answer = boss.post(ADD_KEY, sent)
    assert answer.status_code == 200
    assert "must be left out for the platform" in answer.content.decode()
    assert not ApiKey.objects.exists()


def test_a_key_is_revoked_by_the_action(boss: Client) -> None:
    created = create_api_key(rows.OPERATOR, scope="platform")
    sent = {"action": "revoke_selected", "_selected_action": [created.api_key.pk]}
    boss.post(list_url("apikey"), sent)
    assert authenticate(created.key) is None
    assert AuditEntry.objects.filter(action="api_key.revoked").count() == 1


def test_header_secrets_are_not_even_shown_sealed(boss: Client) -> None:
    endpoint = rows.endpoint(headers=[{"name": "X-Key", "value": "hush-hush", "secret": True}])
    [header] = endpoint.headers
    for page in pages(boss, endpoint):
        assert "hush-hush" not in page
        assert header["sealed"] not in page


def test_the_path_of_a_url_is_on_its_own_page_only(boss: Client) -> None:
    endpoint = rows.endpoint()
    job = rows.delivery(endpoint)
    seen = rows.attempt(job)
    own = page_url("endpoint", endpoint.pk)
    assert "S3CRET" in boss.get(own).content.decode()
    urls = [page_url("delivery", job.pk), page_url("attempt", seen.pk), page_url("event", job.event_id)]
    for model in ("endpoint", "delivery", "attempt", "auditentry"):
        urls.append(list_url(model))
    for url in urls:
        assert "S3CRET" not in boss.get(url).content.decode(), url
    assert "https://hooks.customer.com" in boss.get(page_url("attempt", seen.pk)).content.decode()


def test_a_refused_form_keeps_no_secret_of_a_header(boss: Client, caplog: Any) -> None:
    sent = fields_of(boss.get(ADD).content.decode(), url="http://bad", headers="[1, 2")
    assert boss.post(ADD, sent).status_code == 200
    assert "[1, 2" not in caplog.text
