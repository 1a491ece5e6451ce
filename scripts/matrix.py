"""Runs the tests on every Python found, each with its Django: `python -m scripts.matrix [VERSION …]`."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import setup

ROOT = Path(__file__).resolve().parent.parent
DJANGO = {"3.11": "5.2", "3.12": "6.0", "3.13": "6.1", "3.14": "6.1"}
FOLDERS = (
    ".pyenv/versions/*/bin",
    ".local/share/uv/python/*/bin",
    ".asdf/installs/python/*/bin",
    ".local/share/mise/installs/python/*/bin",
)
# The rest tests the repository or processes, not the interpreter.
ARGUMENTS = ["-q", "-n", "2", "-m", "not chaos and not e2e and not wheel", "--ignore", "tests/structure"]


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    python: str
    django: str
    result: str
    seconds: float
    passed: bool


def candidates(version: str) -> Iterator[str]:
    """Yield where an interpreter may be: on the PATH, then in the folders of version managers."""
    yield f"python{version}"
    for folder in FOLDERS:
        yield from (str(path) for path in sorted(Path.home().glob(f"{folder}/python{version}"), reverse=True))


def runs(python: str, version: str) -> bool:
    """Whether a program is this Python and starts; a version manager's shim may only pretend."""
    code = "import ssl, sqlite3, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return False
    return done.stdout.strip() == version


def interpreters(versions: Sequence[str]) -> dict[str, str]:
    """Return the interpreters that really run, by version."""
    first = {v: next((p for p in candidates(v) if runs(p, v)), None) for v in versions}
    return {version: python for version, python in first.items() if python}


def prepare(version: str, python: str) -> Path:
    """Make the environment of one version: known-good packages, but the Django of its cell."""
    folder = ROOT / f".venv-matrix-{version}"
    interpreter = setup.make_venv(folder, python)
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pin for pin in pins if not pin.startswith("Django==")))
    django = f"Django~={DJANGO[version]}.0"
    what = ["-e", ".[postgres]", django, "-c", str(constraints)]
    setup.install_project(interpreter, *what, groups=("test",))
    return interpreter


def output_of(command: Sequence[str | Path]) -> tuple[int, list[str]]:
    """Run a command, show its output as it comes, and return its exit code and lines."""
    words = [str(part) for part in command]
    lines = []
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.strip())
    return process.returncode, lines


def run(version: str, python: str) -> Cell:
    """Test one version."""
    print(f"== Python {version} ({python}), Django {DJANGO[version]} ==", flush=True)
    started = time.monotonic()
    interpreter = prepare(version, python)
    code, lines = output_of([interpreter, "-m", "scripts.test", *ARGUMENTS])
    summary = next(
        (line for line in reversed(lines) if " passed" in line or " failed" in line), "no test ran"
    )
    django = output_of([interpreter, "-c", "import django; print(django.__version__)"])[1][0]
    return Cell(version, django, summary.strip("= "), time.monotonic() - started, passed=code == 0)


def main(versions: Sequence[str]) -> int:
    """Test the versions (default: all that run), print the table, return the exit code."""
    wanted = list(versions) or list(DJANGO)
    found = interpreters(wanted)
    cells = [run(version, python) for version, python in found.items()]
    print("\nPython  Django   Seconds  Result")
    for cell in cells:
        verdict = "" if cell.passed else "FAILED: "
        print(f"{cell.python:7} {cell.django:8} {cell.seconds:7.0f}  {verdict}{cell.result}")
    for version in wanted:
        if version not in found:
            print(f"{version:7} {DJANGO[version]:8} {'-':>7}  no such interpreter runs here")
    complete = bool(cells) and (bool(versions) or "3.11" in found)
    return 0 if complete and all(cell.passed for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
