"""A client of the API that holds every answer against the OpenAPI document."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.http import HttpResponse
from django.test import Client
from django.urls import resolve
from jsonschema import Draft202012Validator

from webhooks_app.api.schema import document

PREFIX = "/webhooks"
ROOT = f"{PREFIX}/v1"
PROBLEM = {
    "type",
    "title",
    "status",
    "detail",
    "code",
    "retryable",
    "fix",
    "request_id",
    "errors",
    "details",
}


class Api:
    """Calls with one API key (None: without any); answers are checked and JSON."""

    def __init__(self, key: str | None = None, client: Client | None = None) -> None:
        self.client = client or Client(raise_request_exception=False)
        self.headers = {} if key is None else {"HTTP_AUTHORIZATION": f"Bearer {key}"}

    def get(self, path: str, query: Mapping[str, Any] | None = None, **extra: Any) -> HttpResponse:
        return self.checked("GET", path, self.client.get(ROOT + path, query, **self.headers, **extra))

    def post(self, path: str, body: Any = None, **extra: Any) -> HttpResponse:
        return self.send("POST", path, body, **extra)

    def patch(self, path: str, body: Any = None, **extra: Any) -> HttpResponse:
        return self.send("PATCH", path, body, **extra)

    def delete(self, path: str, **extra: Any) -> HttpResponse:
        return self.send("DELETE", path, None, **extra)

    def send(
        self, method: str, path: str, body: Any, content_type: str = "application/json", **extra: Any
    ) -> HttpResponse:
        """Send a body: bytes as they are, anything else as JSON, None as no body at all."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        response = self.client.generic(
            method, ROOT + path, raw, content_type=content_type, **self.headers, **extra
        )
        return self.checked(method, path, response)

    def checked(self, method: str, path: str, response: HttpResponse) -> HttpResponse:
        assert response["Request-Id"].startswith("req_")
        if response.status_code >= 400:
            check_problem(response)
        check_documented(method, path.partition("?")[0], response)
        return response


def check_problem(response: HttpResponse) -> None:
    """Assert that an answer is a whole problem (RFC 9457)."""
    body = response.json()
    assert response["Content-Type"] == "application/problem+json"
    assert set(body) == PROBLEM
    assert body["status"] == response.status_code
    assert body["request_id"] == response["Request-Id"]
    assert all(body[name] for name in ("title", "detail", "fix"))
    assert body["type"] == f"{ROOT}/docs/#{body['code']}"


def check_documented(method: str, path: str, response: HttpResponse) -> None:
    """Assert that the OpenAPI document knows this answer of this operation, down to its members."""
    route = resolve(ROOT + path).route.removeprefix("webhooks").replace("<str:id>", "{id}")
    operation = document()["paths"].get(f"/{route.lstrip('/')}", {}).get(method.lower())
    if operation is None:
        return
    answer = operation["responses"][str(response.status_code)]
    if "content" not in answer:
        assert response.content == b""
        return
    (media,) = answer["content"].values()
    name = media["schema"]["$ref"].rpartition("/")[2]
    body = response.json()
    validator(name).validate(body)
    assert any(
        set(each.get("required", ())) <= set(body) <= set(each["properties"]) for each in _choices(name)
    ), set(body)


def _choices(name: str) -> list[Mapping[str, Any]]:
    """Return the component, or those that it is one of."""
    component = document()["components"]["schemas"][name]
    if "oneOf" not in component:
        return [component]
    return [
        document()["components"]["schemas"][each["$ref"].rpartition("/")[2]] for each in component["oneOf"]
    ]


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of one component of the document."""
    reference = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    return Draft202012Validator(reference, format_checker=Draft202012Validator.FORMAT_CHECKER)


def errors(response: HttpResponse) -> dict[str, str]:
    """Return the errors of a problem as path -> message."""
    return {error["path"]: error["message"] for error in response.json()["errors"]}
