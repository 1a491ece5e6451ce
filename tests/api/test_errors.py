"""The catalogue of errors: complete, consistent, and the same in the documentation."""

import ast
from pathlib import Path

import pytest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404
from rest_framework import exceptions as drf

import webhooks_app
from webhooks_app import exceptions
from webhooks_app.api.errors import CATALOGUE, as_markdown
from webhooks_app.api.operations import Operation
from webhooks_app.api.problems import problem_of, shown
from webhooks_app.api.urls import urlpatterns

PACKAGE = Path(webhooks_app.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "errors.md"
WRITE = "python -c \"from webhooks_app.api.errors import as_markdown; print(as_markdown(), end='')\" > "


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == as_markdown(), f"{WRITE}{PAGE.relative_to(PACKAGE.parent)}"


def codes_in(folder: Path) -> set[str]:
    """Return every text given as `code=` in the modules of a folder."""
    calls = (
        node
        for module in folder.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call)
    )
    words = (word.value for call in calls for word in call.keywords if word.arg == "code")
    return {word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)}


def test_every_code_of_an_action_is_in_the_catalogue() -> None:
    found = codes_in(PACKAGE / "actions") | codes_in(PACKAGE / "api")
    assert len(found) > 5
    assert found <= set(CATALOGUE)


def test_every_code_of_the_catalogue_is_used() -> None:
    modules = [module for module in PACKAGE.rglob("*.py") if module.name != "errors.py"]
    words = {
        node.value
        for module in modules
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(CATALOGUE) <= words


def test_every_code_of_an_operation_is_in_the_catalogue() -> None:
    views = [pattern.callback.cls for pattern in urlpatterns if hasattr(pattern.callback, "cls")]
    declared: list[tuple[str, Operation]] = [
        pair for view in views for pair in getattr(view, "operations", {}).items()
    ]
    assert {code for method, each in declared for code in each.all_errors(method)} <= set(CATALOGUE)


def test_the_catalogue_is_consistent() -> None:
    for code, kind in CATALOGUE.items():
        assert code.isidentifier()
        assert 400 <= kind.status <= 599
        assert kind.title
        assert kind.fix.endswith(".")
        assert kind.retryable or kind.status < 500 or code == "misconfigured"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (exceptions.NotFound("x", code="unheard_of"), "not_found"),
        (exceptions.NotFound("x"), "not_found"),
        (exceptions.Conflict("x", code="unheard_of"), "conflict"),
        (exceptions.LimitReached("x"), "webhook_limit_reached"),
        (exceptions.ActionError("x"), "invalid_request"),
        (exceptions.InvalidRequest([("a", "b")], code="unheard_of"), "invalid_request"),
        (exceptions.PermissionDenied("x"), "permission_denied"),
        (exceptions.InvalidEvent("tenant", "x"), "invalid_request"),
        (exceptions.EventTooLarge("/data", "x"), "payload_too_large"),
        (exceptions.OutboxError("x"), "internal_error"),
        (exceptions.ConfigurationError("S3CRET"), "misconfigured"),
        (drf.NotFound(), "not_found"),
        (drf.PermissionDenied(), "permission_denied"),
        (drf.APIException("S3CRET"), "internal_error"),
        (Http404(), "not_found"),
        (RequestDataTooBig("x"), "payload_too_large"),
        (SuspiciousOperation("S3CRET"), "invalid_request"),
        (KeyError("S3CRET"), "internal_error"),
    ],
)
def test_every_exception_has_a_code(error: Exception, code: str) -> None:
    problem = problem_of(error)
    assert problem.code == code
    assert "S3CRET" not in str(problem)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        ("a\0b", "a\\u0000b"),
        ("\ud800", "\\ud800"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64 + "…"),
    ],
)
def test_names_are_shown_short_and_printable(name: str, expected: str) -> None:
    assert shown(name) == expected


def test_a_fix_of_the_actions_own_comes_first() -> None:
    assert problem_of(exceptions.Conflict("x", code="deliveries_pending", fix="Do this.")).fix == "Do this."
