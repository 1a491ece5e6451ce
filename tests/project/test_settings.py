"""The demo project's settings: nothing needed for development, everything protected in production."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from scripts.lint import PRODUCTION
from tests.structure.sources import ROOT
from webhooks_app import checks

OURS = ("DATABASE_URL", "CELERY_BROKER_URL", "CACHE_URL", "ALLOWED_HOSTS", "DEBUG", "DJANGO_", "WEBHOOKS_")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set none of our variables, whatever is set outside."""
    for name in os.environ:
        if name.startswith(OURS):
            monkeypatch.delenv(name)


def settings_for(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    """Return the settings that these variables give."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(ROOT / "project" / "settings.py"))


def check(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the system checks in a process of their own."""
    command = [sys.executable, "manage.py", "check", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_environment_it_is_a_checkout_with_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    found = settings_for(monkeypatch)
    assert found["DEBUG"]
    assert found["DATABASES"]["default"]["NAME"] == str(ROOT / "data" / "db.sqlite3")
    assert found["CELERY_BROKER_URL"] == "filesystem://"
    assert found["CELERY_BROKER_TRANSPORT_OPTIONS"]["data_folder_in"].startswith(str(ROOT / "data"))
    done = check()
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (0 silenced).\n")


def test_development_keeps_the_keys_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = settings_for(monkeypatch), settings_for(monkeypatch)
    assert first["WEBHOOKS"]["MASTER_KEYS"] == second["WEBHOOKS"]["MASTER_KEYS"] != []
    assert first["SECRET_KEY"] == second["SECRET_KEY"]
    assert first["SECRET_KEY"] not in first["WEBHOOKS"]["MASTER_KEYS"]


def test_production_has_nothing_to_complain_of() -> None:
    done = check("--deploy", "--fail-level", "WARNING", **PRODUCTION)
    assert done.returncode == 0, done.stderr


def test_production_needs_a_secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match="DJANGO_SECRET_KEY"):
        settings_for(monkeypatch, **{**PRODUCTION, "DJANGO_SECRET_KEY": ""})


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("WEBHOOKS_MASTER_KEYS", "", "webhooks_app.E002"),
        ("WEBHOOKS_MASTER_KEYS", "short", "webhooks_app.E001"),
        ("WEBHOOKS_REQUIRE_HTTPS", "false", "webhooks_app.E005"),
        ("WEBHOOKS_STATIC_HOSTS", "a.bench=127.0.0.1", "webhooks_app.E006"),
        ("WEBHOOKS_ALLOW_NETWORKS", "127.0.0.0/8", "webhooks_app.E008"),
        ("WEBHOOKS_CA_BUNDLE", "/nowhere.pem", "webhooks_app.E011"),
        ("WEBHOOKS_TRANSPORT", "telnet", "webhooks_app.E001"),
    ],
)
def test_production_complains_of(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, complaint: str
) -> None:
    found = settings_for(monkeypatch, **{**PRODUCTION, variable: value})
    with override_settings(**{name: found[name] for name in ("WEBHOOKS", "DEBUG")}):
        assert [each.id for each in checks.check_settings()] == [complaint]


def test_every_variable_reaches_its_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = settings_for(
        monkeypatch,
        DATABASE_URL=f"sqlite:///{tmp_path / 'x' / 'db.sqlite3'}",
        CELERY_BROKER_URL=f"filesystem://{tmp_path / 'broker'}",
        WEBHOOKS_ALLOW_NETWORKS="10.0.0.0/8,fd00::/8",
        WEBHOOKS_DENY_HOSTS="me.example.org",
        WEBHOOKS_EXTRA_PORTS="8443,9443",
        WEBHOOKS_STATIC_HOSTS="a.bench=127.0.0.1,a.bench=127.0.0.2,*.b.bench=::1",
        WEBHOOKS_CA_BUNDLE="/etc/ca.pem",
        WEBHOOKS_QUEUE="poll",
        WEBHOOKS_TESTING="true",
    )
    assert found["DATABASES"]["default"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert found["CELERY_BROKER_TRANSPORT_OPTIONS"]["data_folder_in"] == str(tmp_path / "broker" / "messages")
    assert {name: value for name, value in found["WEBHOOKS"].items() if name != "MASTER_KEYS"} == {
        "ALLOW_NETWORKS": ["10.0.0.0/8", "fd00::/8"],
        "DENY_HOSTS": ["me.example.org"],
        "REQUIRE_HTTPS": True,
        "EXTRA_PORTS": [8443, 9443],
        "STATIC_HOSTS": {"a.bench": ["127.0.0.1", "127.0.0.2"], "*.b.bench": ["::1"]},
        "CA_BUNDLE": "/etc/ca.pem",
        "TRANSPORT": "requests",
        "QUEUE": "poll",
        "TESTING": True,
    }


def test_postgresql_keeps_connections_and_checks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    [database] = settings_for(monkeypatch, **PRODUCTION)["DATABASES"].values()
    assert database["ENGINE"].endswith("postgresql")
    assert (database["CONN_MAX_AGE"], database["CONN_HEALTH_CHECKS"]) == (60, True)


def test_the_reference_lists_exactly_the_variables_that_are_read() -> None:
    read = re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', (ROOT / "project" / "settings.py").read_text())
    listed = re.findall(
        r"^\| `([A-Z_]+)` \|", (ROOT / "docs/reference/environment.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == sorted(read)
