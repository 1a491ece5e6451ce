"""The session of the documentation: its commands are run one after another, and answer as the page says."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from scripts.processes import free_port
from tests.project.test_settings import OURS
from tests.structure.sources import ROOT

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs" / "howto" / "session.md"
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "=== end of block ==="
# The page takes about 12 s.
SECONDS = 60


def steps() -> list[tuple[str, list[Any]]]:
    """Return each shell block of the page with the answers that it shows."""
    found: list[tuple[str, list[Any]]] = []
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "sh":
            found.append((text, []))
        else:
            found[-1][1].extend(values(complete(text)))
    return found


def complete(shortened: str) -> str:
    """Return JSON in which … stands as a member or a value of its own."""
    text = re.sub(r"…(?=\s*\})", '"…": 0', shortened)
    return re.sub(r"…(?=\s*\])", '"…"', text)


def values(text: str) -> list[Any]:
    """Return the JSON values that follow one another in a text; what is no JSON is left out."""
    decoder, found, place = json.JSONDecoder(), [], 0
    while match := re.compile(r"[\[{]").search(text, place):
        value, place = decoder.raw_decode(text, match.start())
        found.append(value)
    return found


def fits(shown: Any, real: Any) -> bool:
    """Whether an answer is as the page shows it; … in a text stands for any, as a member for more members."""
    if isinstance(shown, dict):
        is_whole = "…" not in shown
        expected = {name: value for name, value in shown.items() if name != "…"}
        return (
            isinstance(real, dict)
            and (expected.keys() == real.keys() if is_whole else expected.keys() <= real.keys())
            and all(fits(value, real[name]) for name, value in expected.items())
        )
    if isinstance(shown, list):
        return isinstance(real, list) and len(shown) == len(real) and all(map(fits, shown, real))
    if isinstance(shown, str) and "…" in shown:
        return isinstance(real, str) and fnmatchcase(real, shown.replace("…", "?*"))
    return type(shown) is type(real) and bool(shown == real)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of the shell: nothing of ours that is set outside, temporary files in a folder."""
    others = (*OURS, "DJANGO_SETTINGS_MODULE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def shell(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a shell; afterwards it ends, with all that it has started."""
    with subprocess.Popen(
        ["bash", "-u"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_every_command_answers_as_the_page_says(environment: dict[str, str]) -> None:
    for program in ("bash", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"not run: the session of the documentation (package {program})")
    script = f"\necho '{MARK}'\n".join([*(text for text, _ in steps()), ""])
    for here, there in ((".venv/bin/python", sys.executable), ("8000", free_port()), ("9000", free_port())):
        assert here in script
        script = script.replace(here, str(there))
    with shell(environment) as process:
        out, errors = process.communicate(script, timeout=SECONDS)
    parts = out.split(MARK)
    assert len(parts) == len(steps()) + 1, errors
    for (text, shown), part in zip(steps(), parts, strict=False):
        real = values(part)
        assert len(shown) == len(real), text + part + errors
        for each, answer in zip(shown, real, strict=True):
            assert fits(each, answer), f"{text}\nthe page says {each}\nthe answer was {answer}\n{errors}"
    assert process.returncode == 0, errors
    assert not list(Path(environment["TMPDIR"]).iterdir())


@pytest.mark.parametrize(
    ("shown", "real", "expected"),
    [
        ('{"a": 1}', {"a": 1}, True),
        ('{"a": 1}', {"a": 1, "b": 2}, False),
        ('{"a": 1, …}', {"a": 1, "b": 2}, True),
        ('{"a": 1, …}', {"b": 2}, False),
        ("[{…}, {…}]", [{"a": 1}, {}], True),
        ("[{…}]", [{}, {}], False),
        ('{"a": "whk_…"}', {"a": "whk_1"}, True),
        ('{"a": "…"}', {"a": None}, False),
        ('{"a": 1}', {"a": True}, False),
    ],
)
def test_shortened_answers_still_say_something(shown: str, real: Any, expected: bool) -> None:
    assert fits(values(complete(shown))[0], real) is expected
