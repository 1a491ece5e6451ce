"""Below the operations: methods, media types, sizes, JSON's traps, failures of ours."""

import io
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError
from django.test import Client

from tests.api.client import ROOT, Api, check_problem, errors
from webhooks_app.api.parsing import StrictJSONParser, loads
from webhooks_app.api.problems import PayloadTooLarge
from webhooks_app.api.views import webhooks

pytestmark = pytest.mark.django_db
KNOWN = ("/webhooks", "/webhooks/whk_x", "/webhooks/whk_x/pause", "/events", "/openapi.json", "/docs/")


@pytest.mark.parametrize("path", KNOWN)
@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "TRACE", "BREW"])
def test_405_names_what_is_allowed(mine: Api, method: str, path: str) -> None:
    response = mine.send(method, path, None)
    assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed")
    assert response["Allow"]
    assert method not in response["Allow"]


def test_allow_is_exact(mine: Api) -> None:
    assert mine.send("PUT", "/webhooks/x", None)["Allow"] == "GET, HEAD, PATCH, DELETE"
    assert mine.send("GET", "/webhooks/x/pause", None)["Allow"] == "POST"


def test_an_unknown_caller_learns_no_methods() -> None:
    assert Api().send("PUT", "/webhooks", None).status_code == 401


@pytest.mark.parametrize("path", ["", "/", "/nope", "/webhooks/", "/webhooks/whk_x/nope", "/events/a/b"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_404_of_an_unknown_route(method: str, path: str) -> None:
    response = Api().send(method, path, None)
    assert (response.status_code, response.json()["code"]) == (404, "route_not_found")


def test_head_is_get_without_a_body(mine: Api) -> None:
    response = mine.client.head(f"{ROOT}/webhooks", **mine.headers)
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
    ],
)
def test_415(mine: Api, content_type: str) -> None:
    response = mine.post("/webhooks", b"{}", content_type=content_type)
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_415_for_a_compressed_body(mine: Api) -> None:
    assert mine.post("/webhooks", b"{}", HTTP_CONTENT_ENCODING="gzip").status_code == 415


def test_json_with_a_charset_and_any_accept(mine: Api) -> None:
    response = mine.post(
        "/webhooks", b"{}", content_type="Application/JSON; charset=utf-8", HTTP_ACCEPT="text/html"
    )
    assert response.status_code == 400


@pytest.mark.parametrize(("path", "limit"), [("/webhooks", 262_144), ("/events", 262_144 + 65_536)])
def test_413_before_reading(mine: Api, path: str, limit: int) -> None:
    at_limit = b"[" + b" " * (limit - 2) + b"]"
    assert mine.post(path, at_limit).status_code == 400
    response = mine.post(path, at_limit + b" ")
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")


def test_413_while_reading() -> None:
    context = {"view": SimpleNamespace(body_limit=lambda: 10)}
    assert StrictJSONParser().parse(io.BytesIO(b" " * 8 + b"[]"), None, context) == []
    with pytest.raises(PayloadTooLarge):
        StrictJSONParser().parse(io.BytesIO(b" " * 9 + b"[]"), None, context)


def test_413_follows_the_setting(mine: Api, settings: Any) -> None:
    settings.WEBHOOKS = {**settings.WEBHOOKS, "MAX_BODY_BYTES": 1000}
    assert mine.post("/events", b" " * (65_536 + 1001)).status_code == 413


def test_411_for_a_chunked_body(mine: Api) -> None:
    response = mine.post("/webhooks", None, HTTP_TRANSFER_ENCODING="chunked")
    assert (response.status_code, response.json()["code"]) == (411, "length_required")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "must be a JSON object"),
        (b'"x"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"{", "not JSON"),
        (b"{}x", "not JSON"),
        (b"{'a': 1}", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": -Infinity}', "-Infinity is no JSON number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{"a": 1, "b": 2, "a": 3}', "member a is given twice"),
        (b'{"x": {"\\u0000": 1, "\\u0000": 2}}', "member \\u0000 is given twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 30_000, "nested too deeply"),
    ],
)
def test_traps_of_json(mine: Api, body: bytes, message: str) -> None:
    response = mine.post("/webhooks", body)
    assert response.status_code == 400
    assert message.lower() in errors(response)[""].lower()


def test_no_body_is_an_empty_object(mine: Api) -> None:
    assert set(errors(mine.post("/webhooks", None))) == {"url", "events"}


def test_integers_stay_exact() -> None:
    assert loads(b'{"n": 123456789012345678901234567890}') == {"n": 123456789012345678901234567890}


def test_many_doubled_members_cost_little() -> None:
    body = b"{" + b",".join(b'"k%d":1' % n for n in range(20_000)) + b',"k19999":1}'
    with pytest.raises(Exception, match="k19999 is given twice"):
        loads(body)


def test_a_failure_of_ours_tells_nothing(
    mine: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("S3CRET")

    monkeypatch.setattr(webhooks, "visible_endpoints", fail)
    with caplog.at_level(logging.ERROR, "webhooks_app.api"):
        response = mine.get("/webhooks")
    assert (response.status_code, response.json()["code"]) == (500, "internal_error")
    assert response.json()["retryable"] is True
    assert "S3CRET" not in response.content.decode()
    (record,) = [record for record in caplog.records if record.name == "webhooks_app.api"]
    assert record.request_id == response["Request-Id"]
    assert record.exc_info


def test_error_trackers_hear_of_it(mine: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("S3CRET")

    monkeypatch.setattr(webhooks, "visible_endpoints", fail)
    mine.client.raise_request_exception = True
    with pytest.raises(RuntimeError, match="S3CRET"):
        mine.get("/webhooks")


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_a_database_that_is_away(
    mine: Api, monkeypatch: pytest.MonkeyPatch, error: Callable[..., Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("connection refused at 10.0.0.1")

    monkeypatch.setattr(webhooks, "visible_endpoints", fail)
    response = mine.get("/webhooks")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert response["Retry-After"]
    assert "10.0.0.1" not in response.content.decode()


def test_nothing_is_kept_by_caches(mine: Api) -> None:
    assert mine.get("/webhooks")["Cache-Control"] == "no-store"
    assert Api().get("/webhooks")["Cache-Control"] == "no-store"


def test_messages_are_english_whatever_the_visitor_speaks(mine: Api, settings: Any) -> None:
    settings.LANGUAGE_CODE = "de"
    response = mine.post("/webhooks", {"events": ["*"]}, HTTP_ACCEPT_LANGUAGE="de")
    assert errors(response) == {"url": "This field is required."}


def test_views_hold_no_transaction_of_the_host() -> None:
    view = webhooks.Webhooks.as_view()
    assert view._non_atomic_requests >= {"default", "second"}


def test_every_answer_has_an_id_of_its_own(mine: Api) -> None:
    assert len({mine.get("/webhooks")["Request-Id"] for _ in range(5)}) == 5


def test_an_error_of_a_form_in_a_session_is_a_problem() -> None:
    response = Client(raise_request_exception=False).post(f"{ROOT}/webhooks", {"a": "b"})
    check_problem(response)
    assert response.status_code == 401


def test_more_parameters_than_django_reads(mine: Api) -> None:
    query = "&".join(f"p{n}=1" for n in range(1001))
    assert mine.get(f"/webhooks?{query}").json()["code"] == "invalid_request"
