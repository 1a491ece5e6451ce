"""The OpenAPI document and the page made of it."""

import base64
import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client, override_settings
from django.urls import include, path
from drf_spectacular.drainage import GENERATOR_STATS
from jsonschema import Draft202012Validator
from openapi_pydantic.v3.v3_1 import OpenAPI
from openapi_spec_validator import validate

from tests.api import rows
from tests.api.client import ROOT
from webhooks_app import event_type, event_types
from webhooks_app.api import schema
from webhooks_app.api.errors import CATALOGUE
from webhooks_app.api.event_hooks import event_hooks
from webhooks_app.api.urls import urlpatterns as api_urls
from webhooks_app.core import envelope, secrets
from webhooks_app.core.matching import OPERATIONAL

OWN = [
    f"webhook.{name}" for name in ("test", "ping", "disabled", "warning", "recovered", "attempt_exhausted")
]
REPOSITORY = Path(__file__).resolve().parents[2]
urlpatterns = [path("", include("webhooks_app.urls"))]


@pytest.fixture
def document() -> Any:
    return Client().get(f"{ROOT}/openapi.json").json()


def operations(document: Any) -> list[Any]:
    return [operation for methods in document["paths"].values() for operation in methods.values()]


def test_it_is_valid_openapi_3_1(document: Any) -> None:
    assert document["openapi"] == "3.1.0"
    validate(document)


def test_another_validator_agrees(document: Any) -> None:
    """Classes written from the specification, where the other one goes by its JSON Schema."""
    read = OpenAPI.model_validate(document)
    assert set(read.paths or {}) == set(document["paths"])
    assert set(read.webhooks or {}) == set(document["webhooks"])
    for schema_ in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema_)
    broken = copy.deepcopy(document)
    del broken["paths"]["/v1/events"]["get"]["responses"]["200"]["description"]
    with pytest.raises(ValueError, match="description"):
        OpenAPI.model_validate(broken)


def test_every_reference_leads_somewhere(document: Any) -> None:
    used = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(document)))
    assert used <= set(document["components"]["schemas"])


def contents(operation: Any) -> Iterator[tuple[str, Any]]:
    """Yield what each body and each success of an operation is said to be."""
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        yield f"request {kind}", media
    for status, answer in operation["responses"].items():
        if status[0] == "2":
            for media in answer.get("content", {}).values():
                yield status, media


def test_every_operation_has_examples_that_fit(document: Any) -> None:
    hooks = [each["post"] for each in document["webhooks"].values()]
    for operation in operations(document) + hooks:
        for where, media in contents(operation):
            fits = Draft202012Validator(
                {**media["schema"], "components": document["components"]},
                format_checker=Draft202012Validator.FORMAT_CHECKER,
            )
            assert fits.is_valid(media["example"]), (operation.get("operationId"), where, media["example"])


@pytest.mark.parametrize(
    "text",
    [
        *(secrets.generate_from(bytes([255] * size)) for size in range(24, 65)),
        f" {secrets.generate_from(bytes(32))} ",
        *("whsec_" + base64.b64encode(bytes(size)).decode() for size in (0, 1, 23, 65, 66, 67, 68)),
        f"whsec_{'A' * 33}B==",
        f"whsec_{'A' * 34}B=",
        f"whsec_{'A' * 34}",
        f"whsec_{'A' * 40}-_{'A' * 2}",
        f"whsec_whsec_{'A' * 40}",
        "A" * 40,
    ],
)
def test_its_pattern_of_a_secret_is_what_is_taken(text: str, document: Any) -> None:
    try:
        taken = bool(secrets.parse(text))
    except secrets.SecretError:
        taken = False
    for component in ("WebhookCreate", "RotateSecret"):
        field = document["components"]["schemas"][component]["properties"]["secret"]
        assert bool(re.search(field["pattern"], text)) is taken
        assert field["description"]


@pytest.mark.parametrize(
    ("key", "taken"),
    [("k", True), ("a b", True), ("", False), (" a", False), ("é", False), ("x" * 256, False)],
)
def test_its_pattern_of_an_idempotency_key(key: str, taken: bool, document: Any) -> None:
    told = document["paths"]["/v1/events"]["post"]["parameters"]
    (header,) = (each["schema"] for each in told if each["name"] == "Idempotency-Key")
    assert Draft202012Validator(header).is_valid(key) is taken


def test_events_of_the_sender_tell_their_data() -> None:
    hooks = event_hooks()
    assert (
        {f"webhook.{name}" for name in ("disabled", "warning", "recovered", "attempt_exhausted")}
        == set(OPERATIONAL)
        <= set(hooks)
    )
    media = hooks["webhook.warning"]["post"]["requestBody"]["content"]["application/json"]
    data = media["schema"]["properties"]["data"]
    assert data["required"] == ["webhook_id", "reason"]
    assert set(media["example"]["data"]) == set(data["properties"])


def test_events_of_the_host_are_webhooks_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_types, "_types", {})
    assert list(Client().get(f"{ROOT}/openapi.json").json()["webhooks"]) == OWN
    event_type("order.paid", description="The customer has paid.", example={"order_id": 7})
    event_type("order.sent")
    document = Client().get(f"{ROOT}/openapi.json").json()
    validate(document)
    assert list(document["webhooks"]) == ["order.paid", "order.sent", *OWN]
    told = document["webhooks"]["order.paid"]["post"]
    assert told["summary"] == "The customer has paid."
    media = told["requestBody"]["content"]["application/json"]
    assert media["schema"]["properties"]["type"] == {"const": "order.paid"}
    assert media["example"]["data"] == {"order_id": 7}


def test_a_hook_is_the_envelope_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    media = event_hooks()["webhook.test"]["post"]["requestBody"]["content"]["application/json"]
    example = media["example"]
    sent = envelope.build(
        **{**example, "occurred_at": rows.NOW, "data": {"message": "hello"}}, max_bytes=10_000
    )
    assert list(json.loads(sent)) == list(example) == media["schema"]["required"]


def test_it_is_made_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_made", [])
    schema.document()
    assert not GENERATOR_STATS


def test_it_has_every_operation_once(document: Any) -> None:
    views = [pattern.callback for pattern in api_urls if hasattr(pattern.callback, "cls")]
    declared = [each.id for view in views for each in getattr(view.cls, "operations", {}).values()]
    assert sorted(each["operationId"] for each in operations(document)) == sorted(declared)
    assert len(set(declared)) == len(declared) >= 14


def test_every_operation_is_told_whole(document: Any) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for operation in operations(document):
        assert set(operation["tags"]) <= tags
        assert operation["summary"]
        assert operation["security"] == [{"apiKey": []}, {"staffSession": []}]
        assert {"400", "401", "403", "500", "503"} <= set(operation["responses"])
        assert all("Request-Id" in answer["headers"] for answer in operation["responses"].values())
        assert {"411", "413", "415"} <= set(operation["responses"]) or "requestBody" not in operation


def test_secrets_are_in_two_answers_only(document: Any) -> None:
    schemas = document["components"]["schemas"]
    showing = {name for name, each in schemas.items() if "secret" in each.get("properties", {})}
    requests = {"WebhookCreate", "RotateSecret", "HeaderInput", "HeaderShown"}
    assert showing - requests == {"WebhookCreated", "WebhookRotated"}


def test_nothing_of_the_maker_is_left_in_it(document: Any) -> None:
    assert "x-spec" not in str(document)


def test_it_says_where_the_host_mounts_the_api(document: Any) -> None:
    assert document["servers"] == [{"url": "/webhooks"}]
    with override_settings(ROOT_URLCONF=__name__):
        at_root = Client().get("/v1/openapi.json").json()
        assert Client().get("/v1/nope").json()["type"] == "/v1/docs/#route_not_found"
    assert "servers" not in at_root
    assert at_root["paths"] == document["paths"]


def test_it_is_open_to_all_and_may_be_kept_a_while() -> None:
    for each in ("openapi.json", "docs/"):
        response = Client().get(f"{ROOT}/{each}")
        assert (response.status_code, response["Cache-Control"]) == (200, "public, max-age=300")
        assert response["Request-Id"]


class Page(HTMLParser):
    """Collects what a page loads, links to, and can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("href", "src", "action", "srcset", "data", "poster"):
                self.targets.append(value or "")
            if name == "id":
                self.ids.append(value or "")


@pytest.fixture
def page() -> str:
    return Client().get(f"{ROOT}/docs/").content.decode()


def test_the_page_loads_nothing_from_elsewhere(page: str) -> None:
    seen = Page(page)
    assert all(
        re.match(r"(#|/webhooks/v1/|/static/webhooks_app/|data:,$)", target) for target in seen.targets
    )
    assert seen.tags.isdisjoint({"script", "iframe", "img", "style"})
    assert "style=" not in page
    assert "//" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL).replace("<!doctype html>", "")


def test_the_page_has_its_style_sheet_which_loads_nothing_either() -> None:
    sheet = finders.find("webhooks_app/docs.css")
    assert sheet
    text = Path(sheet).read_text()
    assert "url(" not in text
    assert "@import" not in text


def test_the_page_tells_every_operation_and_error(page: str, document: Any) -> None:
    seen = Page(page)
    named = {operation["operationId"] for operation in operations(document)}
    assert named | set(CATALOGUE) <= set(seen.ids)
    assert len(set(seen.ids)) == len(seen.ids)
    assert {f"#{each}" for each in named} <= set(seen.targets)
    assert {target[1:] for target in seen.targets if target.startswith("#")} <= set(seen.ids)
    for text in (
        "/webhooks/v1/webhooks/{id}/rotate-secret",
        "headers[].name",
        "data[].reply.headers[].value",
    ):
        assert text in page
    assert "array of string | null" in page


def test_without_its_slash_it_is_found() -> None:
    response = Client().get(f"{ROOT}/docs")
    assert (response.status_code, response["Location"]) == (302, f"{ROOT}/docs/")


HOST = """
import json, logging, sys
logging.disable()
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF="tests.api.test_documentation", USE_TZ=True,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "webhooks_app"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "ATOMIC_REQUESTS": True},
    },
    STATIC_URL="/static/", DEFAULT_AUTO_FIELD="django.db.models.AutoField", WEBHOOKS={},
    REST_FRAMEWORK={
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
        "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.BasicAuthentication"],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
        "DEFAULT_THROTTLE_CLASSES": ["rest_framework.throttling.AnonRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"anon": "1/day"},
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
        "EXCEPTION_HANDLER": "nowhere.handle", "NON_FIELD_ERRORS_KEY": "oops", "DATETIME_FORMAT": "%s",
        "UNICODE_JSON": False, "COMPACT_JSON": False,
        "DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.AutoSchema",
    },
    SPECTACULAR_SETTINGS={"TITLE": "Host", "SCHEMA_PATH_PREFIX_INSERT": "/host", "CAMELIZE_NAMES": True,
        "SERVERS": [{"url": "https://host.example"}], "POSTPROCESSING_HOOKS": [], "OAS_VERSION": "3.0.3"},
)
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
from webhooks_app.actions.actor import operator
from webhooks_app.actions.api_keys import create_api_key
made = create_api_key(operator("command", "x"), scope="platform", permissions=["webhooks:manage"])
client = Client(raise_request_exception=False)
key = {"HTTP_AUTHORIZATION": "Bearer " + made.key}
bad = client.post("/v1/webhooks", "[]", content_type="application/json", **key)
print(json.dumps({
    "document": client.get("/v1/openapi.json").json(),
    "page": client.get("/v1/docs/").status_code,
    "refused": [client.get("/v1/webhooks").status_code for _ in range(3)],
    "listed": client.get("/v1/webhooks", **key).json(),
    "errors": bad.json()["errors"],
}))
"""


def test_a_hosts_own_settings_change_nothing(document: Any) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, "-c", HOST],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    del document["servers"]
    assert seen["document"] == document
    assert seen["page"] == 200
    assert seen["refused"] == [401, 401, 401]
    assert seen["listed"] == {"data": [], "next_cursor": None}
    assert seen["errors"] == [{"path": "", "message": "Must be a JSON object."}]
