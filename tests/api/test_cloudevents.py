"""CloudEvents 1.0.2 as they come in: structured, binary, as a batch; and what is refused of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from django.http import HttpResponse

from tests.api import rows
from tests.api.client import Api, errors
from tests.api.test_fields import cases, put
from webhooks_app.api.schema import document
from webhooks_app.models import OutboxEntry

pytestmark = pytest.mark.django_db

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "A.1/2 é",
    "source": "/shop/one",
    "type": "order.paid",
    "data": {"n": 12345678901234567890},
}
ALL = {
    **EVENT,
    "subject": "orders/42",
    "time": "2026-10-01T12:00:00.123456Z",
    "datacontenttype": "application/json; charset=utf-8",
    "dataschema": "https://example.com/schema",
    "tenantid": "a",
    "identityid": "u1",
    "ownerkind": "order",
    "ownerid": "42",
    "environment": "live",
    "expirytime": "2999-01-01T00:00:00Z",
}


@pytest.fixture(autouse=True)
def long_retention(settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "RETENTION_DAYS": 3650}


def structured(api: Api, event: Any, kind: str = STRUCTURED, **extra: Any) -> HttpResponse:
    return api.send("POST", "/events", event, kind, **extra)


def binary(api: Api, data: Any = None, kind: str = "application/json", **attributes: str) -> HttpResponse:
    headers = {f"HTTP_CE_{name.upper()}": value for name, value in attributes.items()}
    return api.send("POST", "/events", data, kind, **headers)


REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "order.paid"}


def entry() -> OutboxEntry:
    return OutboxEntry.objects.get()


def test_structured_with_everything(mine: Api) -> None:
    response = structured(mine, ALL)
    assert response.status_code == 202
    assert response.json() == {"id": entry().event_id, "sequence": 1, "created": True}
    made = entry()
    assert (made.type, made.subject, made.tenant_id, made.identity_id) == (
        "order.paid",
        "orders/42",
        "a",
        "u1",
    )
    assert (made.owner_kind, made.owner_id, made.environment) == ("order", "42", "live")
    assert made.occurred_at.isoformat() == "2026-10-01T12:00:00.123456+00:00"
    assert made.expires_at is not None
    assert json.loads(bytes(made.body))["data"] == EVENT["data"]


@pytest.mark.parametrize(
    "kind", [STRUCTURED, f"{STRUCTURED}; charset=utf-8", "Application/CloudEvents+JSON;charset=UTF-8"]
)
def test_structured_media_types(mine: Api, kind: str) -> None:
    assert structured(mine, EVENT, kind).status_code == 202


def test_source_and_id_say_which_event_it_is(mine: Api) -> None:
    first, again = structured(mine, EVENT).json(), structured(mine, {**EVENT, "data": {}}).json()
    assert (again["id"], again["created"]) == (first["id"], False)
    others = [{**EVENT, "source": "/shop/two"}, {**EVENT, "source": "/shop/on", "id": "e" + EVENT["id"]}]
    assert all(structured(mine, each).json()["created"] for each in others)


def test_headers_of_a_structured_event_say_nothing(mine: Api) -> None:
    """HB-4: all attributes are in the body."""
    assert structured(mine, EVENT, HTTP_CE_TYPE="other.type", HTTP_CE_ID="%zz").status_code == 202
    assert entry().type == "order.paid"


def test_binary(mine: Api) -> None:
    response = binary(mine, {"n": 1}, **REQUIRED, subject="Euro%20%E2%82%AC%20%F0%9F%98%80", tenantid="a")
    assert response.status_code == 202
    assert entry().subject == "Euro € 😀"
    assert json.loads(bytes(entry().body))["data"] == {"n": 1}


@pytest.mark.parametrize(
    ("header", "subject"),
    [
        ("100%2525", "100%25"),
        ("100%", "100%"),
        ("%e2%82%ac", "€"),
        ('"a \\"b\\" \\\\c"', 'a "b" \\c'),
        ("€".encode().decode("latin-1"), "€"),
        ("a/b:c;d=e,f", "a/b:c;d=e,f"),
    ],
)
def test_values_of_headers_are_decoded(mine: Api, header: str, subject: str) -> None:
    assert binary(mine, {}, **REQUIRED, subject=header).status_code == 202
    assert entry().subject == subject


def test_binary_and_structured_are_one_event(mine: Api) -> None:
    assert binary(mine, {}, **REQUIRED).json()["created"] is True
    assert structured(mine, {**REQUIRED, "data": {}}).json()["created"] is False


def test_binary_data_is_json_unless_it_says_else(mine: Api) -> None:
    assert binary(mine, {"n": 1}, "", **REQUIRED).status_code == 202
    assert binary(mine, {"n": 1}, "text/plain", **REQUIRED).status_code == 415
    assert binary(mine, b"<", "", **REQUIRED).status_code == 400
    assert mine.send("POST", "/events", {"type": "order.paid", "data": {}}, "").status_code == 415


def test_binary_without_data(mine: Api) -> None:
    assert binary(mine, None, "", **REQUIRED).status_code == 202
    assert json.loads(bytes(entry().body))["data"] == {}


def test_a_binary_event_that_lacks_an_attribute_says_so(mine: Api) -> None:
    assert set(errors(binary(mine, {}, type="order.paid"))) == {"specversion", "id", "source"}


def test_other_headers_make_no_cloudevent(mine: Api) -> None:
    plain = {"type": "order.paid", "data": {}}
    assert mine.post("/events", plain, HTTP_CE_TRACEPARENT="00-x").status_code == 202


def test_what_the_official_library_sends(mine: Api) -> None:
    made = CloudEvent({**REQUIRED, "subject": 'é % "x"', "tenantid": "a"}, {"n": 1})
    message = to_structured_event(made)
    assert mine.send("POST", "/events", message.body, message.headers["content-type"]).status_code == 202
    message = to_binary_event(made)
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value
        for name, value in message.headers.items()
        if name.lower().startswith("ce-")
    }
    assert mine.send("POST", "/events", message.body, "", **headers).json()["created"] is False
    assert entry().subject == 'é % "x"'


def test_a_batch(mine: Api) -> None:
    response = structured(mine, [EVENT, {**EVENT, "id": "2"}, EVENT], BATCH)
    assert response.status_code == 202
    assert [each["created"] for each in response.json()["data"]] == [True, True, False]
    assert structured(mine, [], BATCH).json() == {"data": []}
    assert OutboxEntry.objects.count() == 2


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({"type": None}, "1/type"),
        ({"time": "2001-01-01T00:00:00Z"}, "1/time"),
        ({"environment": "test"}, "1/environment"),
        ({"data": {"a": "\ud800"}}, "1/data/a"),
        ({"type": "not a type"}, "1/type"),
    ],
)
def test_a_bad_one_of_a_batch_is_named(mine: Api, bad: Any, path: str) -> None:
    response = structured(mine, [EVENT, {**EVENT, "id": "2", **bad}], BATCH)
    assert list(errors(response)) == [path]
    assert not OutboxEntry.objects.exists()


@pytest.mark.parametrize("body", [EVENT, [EVENT, 5], ["x"], "x", None, [EVENT] * 501])
def test_what_is_no_batch(mine: Api, body: Any) -> None:
    assert structured(mine, json.dumps(body).encode(), BATCH).status_code == 400
    assert not OutboxEntry.objects.exists()


def test_every_wrong_value_of_every_attribute(mine: Api) -> None:
    before, table = rows.snapshot(), list(cases("CloudEvent"))
    required = {"specversion", "id", "source", "type"}
    for path, value in table:
        response = structured(mine, put(ALL, path, value))
        if put(ALL, path, value) == ALL:
            continue
        # An attribute that is null is one that is not there.
        if value is None and path[0] not in required and path[0] not in ("ownerkind", "ownerid"):
            continue
        assert response.status_code == 400, (path, value)
        named = list(errors(response))
        assert "/".join(map(str, path)) in named or value is None, (path, value, named)
    assert len(table) > 100
    made = {name for name, found in rows.snapshot().items() if found != before[name]}
    assert made <= {"OutboxEntry", "OwnerSequence"}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"source": "a b"}, "source"),
        ({"source": "é"}, "source"),
        ({"source": "x\n"}, "source"),
        ({"subject": "a\x07"}, "subject"),
        ({"subject": "\x85"}, "subject"),
        ({"id": "a\tb"}, "id"),
        ({"datacontenttype": "text/plain"}, "datacontenttype"),
        ({"data_base64": "AAAA"}, "data_base64"),
        ({"data": [1]}, "data"),
        ({"data": "x"}, "data"),
        ({"Extension": "x"}, "Extension"),
        ({"my-ext": "x"}, "my-ext"),
        ({"my_ext": "x"}, "my_ext"),
        ({"dataref": "x"}, "dataref"),
        ({"ownerkind": "order"}, "ownerid"),
        ({"ownerid": "1"}, "ownerkind"),
        ({"specversion": "0.3"}, "specversion"),
        ({"tenantid": ""}, "tenantid"),
        ({"expirytime": "2001-01-01T00:00:00Z"}, "expirytime"),
        ({"time": "2999-01-01T00:00:00Z"}, "time"),
        ({"type": "order-paid"}, "type"),
    ],
)
def test_what_an_event_must_not_say(mine: Api, change: Any, path: str) -> None:
    response = structured(mine, {**EVENT, **change})
    assert response.status_code == 400
    assert list(errors(response)) == [path]
    assert not OutboxEntry.objects.exists()


@pytest.mark.parametrize(
    "extra",
    [{"traceparent": "00-a-b-01"}, {"sequence": 5}, {"sampled": True}, {"x1": None, "subject": None}],
)
def test_extensions_are_left_aside(mine: Api, extra: Any) -> None:
    assert structured(mine, {**EVENT, **extra}).status_code == 202


NOT_KEPT = {"source": "/not-kept", "dataschema": "https://not-kept.example/1", "partitionkey": "not-kept"}


def test_what_is_not_kept_is_in_no_form_and_the_documentation_names_it(mine: Api) -> None:
    """Taken in every form, and told: the schema, the operation and the reference say what is left out."""
    event = {**EVENT, **NOT_KEPT}
    assert structured(mine, event).status_code == 202
    assert structured(mine, [{**event, "id": "2"}], BATCH).status_code == 202
    assert binary(mine, {}, **{**REQUIRED, **NOT_KEPT, "id": "3"}).status_code == 202
    bodies = [bytes(each.body).decode() for each in OutboxEntry.objects.all()]
    assert len(bodies) == 3
    assert "not-kept" not in "".join(bodies)
    operation = document()["paths"]["/v1/events"]["post"]["description"]
    schema = document()["components"]["schemas"]["CloudEvent"]["description"]
    page = (Path(__file__).parents[2] / "docs/reference/api.md").read_text()
    (told,) = re.findall(r"\*\*What is not kept of a CloudEvent\*\*.*?\n\n", page, re.DOTALL)
    for text in (operation, schema, told):
        assert "not kept" in text.casefold()
        assert [
            word for word in ("`source`", "`dataschema`", "extension", "`data`") if word not in text
        ] == []


def test_somebody_elses_tenant(mine: Api) -> None:
    response = structured(mine, {**EVENT, "tenantid": "b"})
    assert (response.status_code, response.json()["code"]) == (404, "tenant_not_found")


def test_other_paths_take_no_cloudevents(mine: Api) -> None:
    for path in ("/events/batch", "/webhooks"):
        assert mine.send("POST", path, EVENT, STRUCTURED).status_code == 415
    assert structured(mine, "<e/>", "application/cloudevents+xml").status_code == 415


def test_headers_count_for_the_idempotency_key(mine: Api) -> None:
    key = {"HTTP_IDEMPOTENCY_KEY": "k"}
    first = mine.send(
        "POST",
        "/events",
        {},
        HTTP_CE_ID="1",
        HTTP_CE_SOURCE="/s",
        HTTP_CE_TYPE="a.b",
        HTTP_CE_SPECVERSION="1.0",
        **key,
    )
    second = mine.send(
        "POST",
        "/events",
        {},
        HTTP_CE_ID="2",
        HTTP_CE_SOURCE="/s",
        HTTP_CE_TYPE="a.b",
        HTTP_CE_SPECVERSION="1.0",
        **key,
    )
    assert (first.status_code, second.json()["code"]) == (202, "idempotency_conflict")
