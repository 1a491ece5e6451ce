"""The scripts behind make: exit codes, missing servers, links, interpreters."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import docs, matrix, packages, setup
from scripts import test as runner
from tests.structure.sources import ROOT


@pytest.mark.parametrize(
    ("not_run", "codes", "allowed", "expected"),
    [
        ([], [0, 0], "", 0),
        ([], [0, 1], "", 1),
        ([], [2, 1], "", 2),
        ([], [5], "", 5),
        (["redis"], [0], "", 1),
        (["redis"], [0], "1", 0),
        (["redis"], [1], "1", 1),
        (["not run, optional: npm"], [0], "", 0),
        (["not run, optional: npm", "not run: redis"], [0], "", 1),
    ],
)
def test_exit_code(
    monkeypatch: pytest.MonkeyPatch, not_run: list[str], codes: list[int], allowed: str, expected: int
):
    monkeypatch.setenv("ALLOW_MISSING", allowed)
    assert runner.report(not_run, codes) == expected


def test_what_was_not_run_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("ALLOW_MISSING", raising=False)
    runner.report(["not run: tests that need Redis (package redis-server)"], [0])
    printed = capsys.readouterr().out
    assert "NOT RUN: tests that need Redis (package redis-server)" in printed
    assert "ALLOW_MISSING=1" in printed


def test_missing_servers_are_installed_once(monkeypatch: pytest.MonkeyPatch):
    lacking, installed = ["redis-server", "rabbitmq-server"], []

    def install(names: Sequence[str]) -> bool:
        installed.append(list(names))
        lacking.remove("redis-server")
        return False

    monkeypatch.setattr(runner, "missing", lambda: list(lacking))
    monkeypatch.setattr(packages, "install", install)
    assert runner.absent(["postgresql", "redis-server", "rabbitmq-server"]) == ["rabbitmq-server"]
    assert installed == [["redis-server", "rabbitmq-server"]]


def test_without_root_the_command_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert packages.install(["postgresql"]) is False
    assert "sudo apt-get install postgresql" in capsys.readouterr().out


def test_sqlite_part_names_what_exists():
    paths = runner.sqlite_paths()
    assert "tests/pipeline" in paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_makefile_and_setup_agree_on_what_the_environment_is_made_from():
    rule = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("$(STAMP):"))
    assert tuple(rule.split()[1:]) == setup.SOURCES


def test_a_fingerprint_changes_with_the_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    before = setup.digest()
    for name in setup.SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("changed")
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    assert setup.digest() != before


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("other.md", None),
        ("other.md#a-heading--more", None),
        ("other.md#twice-1", None),
        ("#here", None),
        ("https://example.com/x", None),
        ("gone.md", "gone.md: no such file"),
        ("other.md#gone", "other.md#gone: no such heading"),
        ("other.md#in-code", "other.md#in-code: no such heading"),
    ],
)
def test_links(tmp_path: Path, target: str, fault: str | None):
    other = "# A heading / more\n\n## Twice\n\n## Twice\n\n```\n# In code\n```\n"
    (tmp_path / "other.md").write_text(other)
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\nSee [this]({target}), not `[that](nowhere.md)`.\n")
    assert list(docs.links(page)) == [target]
    assert docs.fault(page, target) == fault


def test_make_targets_named_in_pages_exist(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("Run `make test` or `make tea`.")
    assert docs.unknown_targets(page, {"test"}) == ["make tea: no such target"]


def test_only_interpreters_that_start_are_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    shim = tmp_path / "python3.11"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setattr(matrix, "candidates", lambda version: iter([str(shim), str(tmp_path / "absent")]))
    assert matrix.interpreters(["3.11"]) == {}
