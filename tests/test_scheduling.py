"""How tests are shared out: files that stay together do so, what is long is begun early, nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scheduling import TOGETHER, spread
from tests.structure.sources import ROOT

TESTS = """
import os, pathlib, time
import pytest

@pytest.mark.parametrize("n", range(6))
def test_it(n):
    time.sleep(0.02)
    with pathlib.Path(os.environ["SEEN"]).open("a") as seen:
        seen.write(os.environ["PYTEST_XDIST_WORKER"])
"""
PLAIN = ["-p", "no:django", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", os.devnull]


def ran(folder: Path) -> str:
    """Run such tests in two processes; return which of them ran each test."""
    path = folder / TOGETHER[0]
    path.parent.mkdir(parents=True)
    path.write_text(TESTS)
    arguments = ["-q", "-n", "2", "--dist", "loadgroup", "-p", "tests.scheduling", "--rootdir", "."]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLAIN, *arguments, "tests"],
        cwd=folder,
        env={**os.environ, "SEEN": str(folder / "seen"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "6 passed" in done.stdout, done.stdout + done.stderr
    return (folder / "seen").read_text()


def test_these_files_stay_in_one_process(tmp_path: Path):
    assert ran(tmp_path) in {"gw0" * 6, "gw1" * 6}


@pytest.mark.parametrize("name", TOGETHER)
def test_they_exist(name: str):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("few", [1, 2, 7, 50])
@pytest.mark.parametrize("many", [0, 1, 6, 50])
def test_all_are_there_and_in_order(few: int, many: int):
    mixed = spread(list(range(few)), [-1 - n for n in range(many)])
    assert [each for each in mixed if each >= 0] == list(range(few))
    assert [-1 - each for each in mixed if each < 0] == list(range(many))


def test_the_long_are_begun_at_even_distances_and_early():
    mixed = spread(["long"] * 10, ["short"] * 1000)
    places = [place for place, each in enumerate(mixed) if each == "long"]
    assert places == list(range(0, 710, 71))


def test_what_uses_no_database_runs_once(request: pytest.FixtureRequest):
    assert request.node.get_closest_marker("once")


def test_what_uses_one_runs_on_each(request: pytest.FixtureRequest, db: None):
    assert not request.node.get_closest_marker("once")
