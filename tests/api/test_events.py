"""Events: the way in, and what can be read of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from tests.api import rows
from tests.api.client import Api, errors
from webhooks_app import emit
from webhooks_app.core.ids import tenant_event_id
from webhooks_app.models import Event, OutboxEntry, Partner, Tenant
from webhooks_app.pipeline import inline

pytestmark = pytest.mark.django_db

BODY = {"type": "order.paid", "data": {"total": "12.50"}}


def envelope() -> Any:
    return json.loads(bytes(OutboxEntry.objects.get().body))


def test_ingest_with_little(mine: Api) -> None:
    response = mine.post("/events", BODY)
    assert response.status_code == 202
    entry = OutboxEntry.objects.get()
    assert response.json() == {"id": entry.event_id, "sequence": None, "created": True}
    assert (entry.tenant_id, entry.environment, entry.type) == ("a", "live", "order.paid")
    assert envelope()["data"] == BODY["data"]


def test_ingest_with_everything(mine: Api) -> None:
    now = timezone.now()
    body = {
        **BODY,
        "tenant_id": "a",
        "identity_id": "u1",
        "owner": {"kind": "order", "id": "42"},
        "subject": "orders/42",
        "event_id": "mine-1",
        "occurred_at": now.isoformat(),
        "expires_at": now.replace(year=now.year + 1).isoformat().replace("+00:00", "Z"),
        "environment": "live",
    }
    response = mine.post("/events", body)
    event_id = tenant_event_id("a", "mine-1")
    assert response.json() == {"id": event_id, "sequence": 1, "created": True}
    entry = OutboxEntry.objects.get()
    assert (entry.identity_id, entry.owner_kind, entry.owner_id) == ("u1", "order", "42")
    assert (entry.subject, entry.occurred_at) == ("orders/42", now)
    assert mine.post("/events", body).json() == {"id": event_id, "sequence": 1, "created": False}
    assert OutboxEntry.objects.count() == 1


def test_two_tenants_may_use_one_id(api: Callable[..., Api]) -> None:
    answers = [api(f"tenant:{name}").post("/events", {**BODY, "event_id": "e1"}).json() for name in "ab"]
    assert answers[0]["id"] != answers[1]["id"]
    assert [answer["created"] for answer in answers] == [True, True]


def test_an_id_of_the_other_environment_is_refused(api: Callable[..., Api]) -> None:
    body = {**BODY, "event_id": "e1"}
    assert api(environment="test").post("/events", body).json()["created"] is True
    response = api().post("/events", body)
    assert (response.status_code, response.json()["code"]) == (409, "event_id_conflict")


@pytest.mark.parametrize(
    ("scope", "given", "tenant"),
    [
        ("tenant:a", None, "a"),
        ("tenant:a", "a", "a"),
        ("partner:p", "b", "b"),
        ("platform", "anybody", "anybody"),
        ("platform", None, None),
    ],
)
def test_for_whom_a_key_may_speak(
    api: Callable[..., Api], scope: str, given: str | None, tenant: str | None
) -> None:
    body = BODY if given is None else {**BODY, "tenant_id": given}
    assert api(scope).post("/events", body).status_code == 202
    assert OutboxEntry.objects.get().tenant_id == tenant


@pytest.mark.parametrize(
    ("scope", "given"), [("tenant:a", "b"), ("tenant:d", "x"), ("partner:p", "c"), ("partner:p", "nobody")]
)
def test_for_whom_it_may_not(api: Callable[..., Api], scope: str, given: str) -> None:
    response = api(scope).post("/events", {**BODY, "tenant_id": given})
    assert (response.status_code, response.json()["code"]) == (404, "tenant_not_found")
    assert not OutboxEntry.objects.exists()


def test_a_partner_names_a_tenant(api: Callable[..., Api]) -> None:
    assert set(errors(api("partner:p").post("/events", BODY))) == {"tenant_id"}


@pytest.mark.parametrize(("environment", "given", "status"), [("test", None, 202), ("live", "test", 400)])
def test_the_environment_is_the_keys(
    api: Callable[..., Api], environment: str, given: str | None, status: int
) -> None:
    body = BODY if given is None else {**BODY, "environment": given}
    response = api(environment=environment).post("/events", body)
    assert response.status_code == status
    if status == 202:
        assert OutboxEntry.objects.get().environment == environment


def test_numbers_travel_exactly(mine: Api) -> None:
    raw = b'{"type":"x.y","data":{"n":123456789012345678901234567890,"f":0.1,"s":"\\ud83d\\ude0a\\u2028"}}'
    assert mine.post("/events", raw).status_code == 202
    assert b'"n":123456789012345678901234567890,"f":0.1' in bytes(OutboxEntry.objects.get().body)
    shown = mine.get(f"/events/{OutboxEntry.objects.get().event_id}")
    assert b"123456789012345678901234567890" in shown.content
    assert shown.json()["data"]["s"] == "😊\u2028"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b'{"type":"x.y","data":{"a":"\\u0000"}}', "data/a"),
        (b'{"type":"x.y","data":{"a":["\\ud800"]}}', "data/a/0"),
        (b'{"type":"x.y","data":{"a":' + b"[" * 120 + b"]" * 120 + b"}}", "data/a" + "/0" * 99),
        (b'{"type":"webhook.test","data":{}}', "type"),
        (b'{"type":"no spaces","data":{}}', "type"),
        (b'{"type":"\xc3\xa4.b","data":{}}', "type"),
        (b'{"type":"x.y","data":{},"event_id":"a.b"}', "event_id"),
        (b'{"type":"x.y","data":{},"occurred_at":"2001-01-01T00:00:00Z"}', "occurred_at"),
        (b'{"type":"x.y","data":{},"occurred_at":"9999-12-31T23:59:59Z"}', "occurred_at"),
        (b'{"type":"x.y","data":{},"occurred_at":"0001-01-01T00:00:00+14:00"}', "occurred_at"),
        (b'{"type":"x.y","data":{},"expires_at":"2001-01-01T00:00:00Z"}', "expires_at"),
    ],
)
def test_what_cannot_travel_is_named(mine: Api, raw: bytes, path: str) -> None:
    response = mine.post("/events", raw)
    assert response.status_code == 400
    assert list(errors(response)) == [path]
    assert not OutboxEntry.objects.exists()


def test_an_envelope_above_the_limit(mine: Api, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_BODY_BYTES": 1000}
    response = mine.post("/events", {**BODY, "data": {"text": "x" * 1000}})
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")


def test_an_event_can_be_read_at_once(mine: Api) -> None:
    made = mine.post("/events", {**BODY, "owner": {"kind": "order", "id": "1"}}).json()
    shown = mine.get(f"/events/{made['id']}").json()
    assert (shown["id"], shown["sequence"], shown["data"]) == (made["id"], 1, BODY["data"])
    assert (shown["tenant_id"], shown["partner_id"]) == ("a", "p")
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("scope", "environment", "status"),
    [
        ("tenant:a", "live", 200),
        ("partner:p", "live", 200),
        ("platform", "live", 200),
        ("tenant:b", "live", 404),
        ("partner:q", "live", 404),
        ("tenant:a", "test", 404),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_who_may_read_it(
    api: Callable[..., Api], scope: str, environment: str, status: int, *, indexed: bool
) -> None:
    event_id = api().post("/events", BODY).json()["id"]
    if indexed:
        event_id = rows.event(partner_id="p").public_id
    assert api(scope, environment=environment).get(f"/events/{event_id}").status_code == status


def test_an_indexed_event(mine: Api) -> None:
    event = rows.event(owner_kind="order", owner_id="9", sequence=3, subject="s", identity_id="u")
    assert mine.get(f"/events/{event.public_id}").json() == {
        "id": event.public_id,
        "type": "order.paid",
        "tenant_id": "a",
        "partner_id": None,
        "identity_id": "u",
        "owner": {"kind": "order", "id": "9"},
        "sequence": 3,
        "subject": "s",
        "environment": "live",
        "occurred_at": "2026-10-01T12:00:00.123Z",
        "recorded_at": "2026-10-01T12:00:00.123Z",
        "expires_at": None,
        "data": {"n": 1},
    }


def test_an_event_whose_body_is_gone(mine: Api) -> None:
    event = rows.event(body=None, outbox_alias="default", outbox_id=77)
    assert mine.get(f"/events/{event.public_id}").json()["data"] is None


def test_an_event_stays_that_of_the_partner_of_its_time(api: Callable[..., Api]) -> None:
    """Also where the outbox still has it, whose rows say nothing of partners."""
    for name in ("p", "q"):
        Partner.objects.get_or_create(id=name)
    tenant = Tenant.objects.create(id="moving", partner_id="p")
    with transaction.atomic():
        ref = emit("order.paid", {"n": 1}, tenant="moving")
    inline.fan_out()
    Tenant.objects.filter(pk=tenant.pk).update(partner_id="q")
    then, now = (api(f"partner:{each}") for each in ("p", "q"))
    assert then.get(f"/events/{ref.id}").json()["partner_id"] == "p"
    assert now.get(f"/events/{ref.id}").json()["code"] == "event_not_found"


@pytest.mark.parametrize("event_id", ["evt_x", "%00", "a%00b", "%ed%a0%80", "x" * 65, "ä", "a b"])
def test_ids_that_no_event_has(mine: Api, event_id: str) -> None:
    assert mine.get(f"/events/{event_id}").json()["code"] == "event_not_found"
