"""What the image's web process does: gunicorn answers, serves static files and insists on HTTPS."""

import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from scripts.lint import PRODUCTION
from scripts.processes import ask, free_port, wait_until
from tests.structure.sources import ROOT


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    gunicorn = Path(sys.executable).with_name("gunicorn")
    if not gunicorn.exists():
        pytest.skip("not run: gunicorn is not installed (requirements.txt)")
    number = free_port()
    log = tmp_path_factory.mktemp("gunicorn") / "log"
    database = f"sqlite:///{log.with_name('db.sqlite3')}"
    command = [gunicorn, "project.served", "--bind", f"127.0.0.1:{number}", "--no-control-socket"]
    environment = {**os.environ, **PRODUCTION, "DATABASE_URL": database, "CACHE_URL": "locmemcache://"}
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, env=environment, stderr=out) as process:
        try:
            wait_until(lambda: process.poll() is not None or _answers(number), seconds=20)
            assert _answers(number), log.read_text()
            yield number
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    return bool(ask(port, b"GET / HTTP/1.0\r\n\r\n"))


def _status(port: int, path: str, host: str = "hooks.example.com") -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


def test_static_files_are_served(port: int):
    assert _status(port, "/static/admin/css/base.css") == 200


def test_pages_go_to_https(port: int):
    assert _status(port, "/admin/") == 301


def test_health_check_of_the_compose_file_passes(port: int):
    assert _status(port, "/", host="localhost") < 500
