"""The wheel: what is in it, and that four lines make it work in a fresh project, offline."""

import base64
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.structure.sources import ROOT

pytestmark = [pytest.mark.wheel, pytest.mark.xdist_group("wheel")]
WHEELS = ROOT / ".tools" / "wheels"
OFFLINE = ["--no-index", "--find-links", str(WHEELS), "--disable-pip-version-check", "--quiet"]
PARTS = ("webhooks_app", "project", "pyproject.toml", "README.md", "LICENSE")

SETTINGS = """
INSTALLED_APPS += ["webhooks_app"]
WEBHOOKS = {{"MASTER_KEYS": ["{key}"]}}
import webhooks_app
CELERY_BEAT_SCHEDULE = webhooks_app.beat_schedule()
"""
URLS = """
from django.urls import include
urlpatterns += [path("", include("webhooks_app.urls"))]
"""
EMIT = """
from django.db import transaction
from webhooks_app import emit
with transaction.atomic():
    ref = emit("order.paid", {"total": 7}, tenant="t1")
from webhooks_app.models import OutboxEntry
print("emitted", ref.id, OutboxEntry.objects.get().event_id == ref.id)
"""


def _run(command: Sequence[str | Path], cwd: Path) -> str:
    dropped = {"DJANGO_SETTINGS_MODULE", "PYTHONPATH", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in dropped}
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def _copy_sources(target: Path) -> None:
    """Build from a copy: setuptools leaves build/ and egg-info where it builds."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / part).exists():
            shutil.copy(ROOT / part, target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not WHEELS.exists():
        pytest.skip("not run: .tools/wheels is missing (make setup fetches it)")
    folder = tmp_path_factory.mktemp("build")
    _copy_sources(folder)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", *OFFLINE, "--wheel-dir", "dist", "."]
    _run(command, folder)
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _shipped(pattern: str) -> set[str]:
    files = (path for path in (ROOT / "webhooks_app").rglob(pattern) if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def test_everything_of_the_package_is_in(contents: set[str]):
    expected = _shipped("*.py") | _shipped("templates/**/*") | _shipped("static/**/*") | _shipped("*.po")
    assert expected - contents == set()
    assert "webhooks_app/py.typed" in contents
    assert any(name.startswith("webhooks_app/migrations/0001") for name in contents)


def test_nothing_else_is_in(contents: set[str]):
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"webhooks_app"}


def test_licence_and_version(contents: set[str], wheel: Path):
    import webhooks_app

    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in contents)
    assert wheel.name.startswith(f"django_webhooks_app-{webhooks_app.__version__}-py3-none-any")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with nothing but the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("venv")
    programs = folder / "bin"
    _run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    pip = [sys.executable, "-m", "pip", "--python", programs / "python"]
    # Most of what the dependencies hold is never imported here.
    _run([*pip, "install", "--no-compile", *OFFLINE, wheel], folder)
    return programs


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_four_lines_make_it_work(environment: Path, tmp_path: Path):
    _run([environment / "django-admin", "startproject", "shop", tmp_path], tmp_path)
    key = base64.b64encode(os.urandom(32)).decode()
    _append(tmp_path / "shop" / "settings.py", SETTINGS.format(key=key))
    _append(tmp_path / "shop" / "urls.py", URLS)
    manage = [environment / "python", tmp_path / "manage.py"]
    _run([*manage, "migrate", "--verbosity", "0"], tmp_path)
    _run([*manage, "check"], tmp_path)
    output = _run([*manage, "shell", "--verbosity", "0", "--command", EMIT], tmp_path)
    assert output.startswith("emitted evt_")
    assert output.strip().endswith("True")


@pytest.mark.parametrize("transport", ["redis", "pyamqp", "filesystem"])
def test_the_transports_of_the_brokers_can_be_imported(environment: Path, tmp_path: Path, transport: str):
    _run([environment / "python", "-c", f"import kombu.transport.{transport}"], tmp_path)
