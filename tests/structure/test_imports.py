"""Who may import whom, and what an import of the package costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import webhooks_app
from tests.structure.sources import ROOT

HEAVY = ("celery", "cryptography", "django", "requests", "rest_framework")


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_import_contracts_hold():
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_root_is_light_and_needs_no_settings():
    loaded = f"import sys, webhooks_app; print([m for m in {HEAVY} if m in sys.modules])"
    done = _python(loaded)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_public_names():
    public = ["Actor", "__version__", "beat_schedule", "emit", "emit_many", "event_type"]
    assert sorted(webhooks_app.__all__) == public


@pytest.mark.parametrize("name", webhooks_app.__all__)
def test_public_name_loads(name: str):
    assert getattr(webhooks_app, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = webhooks_app.nothing


def test_core_works_without_django():
    code = (
        "import importlib, pkgutil, sys, webhooks_app.core as core\n"
        "for module in pkgutil.iter_modules(core.__path__):\n"
        "    importlib.import_module(f'webhooks_app.core.{module.name}')\n"
        "print('django' in sys.modules)"
    )
    done = _python(code)
    assert (done.stdout.strip(), done.stderr) == ("False", "")
