"""The pages of reference name what the code has, all of it and nothing else."""

import inspect
import json
import logging
import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.dispatch import Signal

import webhooks_app
from webhooks_app import emit, signals
from webhooks_app.api.schema import document
from webhooks_app.conf import Settings
from webhooks_app.exceptions import EmitError
from webhooks_app.pipeline import announce

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def table(page: str) -> list[list[str]]:
    """Return the cells of every row of a page's tables, heads left out."""
    lines = re.sub(r"\\\|", "¦", (REFERENCE / page).read_text("utf-8")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if not set(row[0]) <= set("-: ")]


def test_settings():
    """Every key with its default."""
    rows = {row[0].strip("`"): row[1] for row in table("settings.md") if row[0].startswith("`")}
    assert rows.keys() == {field.name for field in fields(Settings)}
    told_otherwise = {"MASTER_KEYS", "DENY_HOSTS", "CA_BUNDLE", "POLICY_BOUNDS"}
    for field in fields(Settings):
        default = field.default if field.default is not MISSING else field.default_factory()
        if field.name in told_otherwise:
            continue
        value = list(default) if isinstance(default, tuple) else default
        shown = "none" if value is None else f"`{json.dumps(value)}`" if value != "" else ""
        shown = shown.replace("true", "True").replace("false", "False")
        assert rows[field.name] == shown, field.name


def test_commands_and_their_options():
    text = (REFERENCE / "commands.md").read_text("utf-8")
    ours = {name for name, app in get_commands().items() if app == "webhooks_app"}
    named = set(re.findall(r"\bwebhooks_[a-z]+\b", text)) - {"webhooks_demo"}
    assert named == ours
    lines = [line.replace("\\|", "|") for line in text.splitlines() if line.startswith("| `webhooks_")]
    for line in lines:
        name = re.findall("webhooks_[a-z]+", line)[0]
        usage = load_command_class("webhooks_app", name).create_parser("manage.py", name).format_help()
        for option in re.findall(r"(--[a-z-]+)", line.split("|")[1]):
            assert option in usage or name == "webhooks_apikey", (name, option)


def test_make_targets():
    rows = [row[0] for row in table("commands.md") if row[0].startswith("`") and "webhooks_" not in row[0]]
    named = {row.strip("`").split()[0] for row in rows if not row.startswith("`python")}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named - {"make"} <= targets


def test_paths_of_the_api():
    named: set[tuple[str, str]] = set()
    for cells in table("api.md"):
        if not cells[0].startswith("`v1/"):
            continue
        first, *more = re.findall("`([^`]+)`", cells[0])
        paths = [first, *(first.rpartition("/")[0] + other for other in more)]
        named |= {
            (method, path) for path in paths for method in re.findall("GET|POST|PATCH|DELETE", cells[1])
        }
    methods = {"get", "post", "patch", "delete"}
    real = {
        (method.upper(), path.lstrip("/"))
        for path, operations in document()["paths"].items()
        for method in operations
        if method in methods
    }
    assert named == real


def test_signals_and_their_arguments(monkeypatch: pytest.MonkeyPatch):
    rows = {row[0].strip("`"): row for row in table("signals.md")}
    ours = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert {name for name in rows if name in ours} == ours
    source = inspect.getsource(announce)
    for signal, more in announce._SIGNALS.values():
        name = next(name for name in ours if getattr(signals, name) is signal)
        assert set(rows[name][2].strip("`").split()) == {"endpoint_id", "reason", *more}
    for name in ("attempt_recorded", "delivery_ended"):
        call = re.search(rf"{name}\.send_robust\((.*?)\)\n", source, re.DOTALL)
        assert call
        sent = set(re.findall(r"(\w+)=", call[1])) - {"sender"}
        assert set(rows[name][2].strip("`").split()) == sent


def test_loggers():
    text = (REFERENCE / "signals.md").read_text("utf-8")
    sources = (ROOT / "webhooks_app").rglob("*.py")
    used = {
        name for path in sources for name in re.findall(r'getLogger\("(webhooks_app[^"]*)"', path.read_text())
    }
    assert used == set(re.findall(r"`(webhooks_app\.(?!signals)\w+)`", text))
    assert all(isinstance(logging.getLogger(name), logging.Logger) for name in used)


def test_emit():
    """Every argument of `emit`, every public name, every error."""
    text = (REFERENCE / "emit.md").read_text("utf-8")
    named = {row[0].strip("`") for row in table("emit.md") if row[0].startswith("`")}
    assert set(inspect.signature(emit).parameters) <= named
    errors = {each.__name__ for each in (*EmitError.__subclasses__(), *_below(EmitError))}
    assert errors <= set(re.findall(r"`(\w+)`", text))
    assert all(f"`{name}" in text for name in ("emit", "emit_many", "event_type"))
    here = {"emit", "emit_many", "event_type"}
    assert set(webhooks_app.__all__) == here | {"Actor", "__version__", "beat_schedule"}


def test_actor():
    """Every value that a host's resolver gives; the request's id is the API's own."""
    named = {name for row in table("../howto/own-users.md") for name in re.findall("`([a-z_]+)`", row[0])}
    assert {field.name for field in fields(webhooks_app.Actor)} - {"request_id"} <= named


def _below(kind: type[Exception]) -> set[type[Exception]]:
    return {each for child in kind.__subclasses__() for each in (child, *_below(child))}


@pytest.mark.parametrize("page", sorted(path.name for path in REFERENCE.glob("*.md")))
def test_every_page_is_in_the_index(page: str):
    assert f"(reference/{page})" in (ROOT / "docs" / "README.md").read_text("utf-8")
