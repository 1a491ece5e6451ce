"""Makes or updates `.venv` and `.tools`: `python3 -m scripts.setup`. Stdlib only; run by make."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts import packages

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
WHEELS = ROOT / ".tools" / "wheels"
NODE = ROOT / "tests" / "node"
CONSTRAINTS = ["-c", str(ROOT / "constraints.txt")]
# What the environment is made from; the Makefile has the same list.
SOURCES = (
    "pyproject.toml",
    "requirements.txt",
    "constraints.txt",
    "tests/node/package-lock.json",
    "scripts/setup.py",
)
PIP = ["-m", "pip", "--disable-pip-version-check", "--quiet"]


def run(command: Sequence[str | Path], *, cwd: Path = ROOT) -> None:
    """Run a command quietly; end with its output shown when it fails."""
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"failed ({done.returncode}): {' '.join(words)}\n{done.stdout}")


def require_venv(python: str) -> None:
    """Install Debian's package of the venv module when this interpreter lacks it; end when that fails."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    lacking = python == sys.executable and importlib.util.find_spec("ensurepip") is None
    if lacking and not packages.install([package]):
        sys.exit(1)


def make_venv(folder: Path, python: str = sys.executable) -> Path:
    """Make a virtual environment unless it is there; return its interpreter."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        require_venv(python)
        run([python, "-m", "venv", folder])
    # `pip install --group` exists since 25.1.
    run([interpreter, *PIP, "install", "--upgrade", "pip>=25.1"])
    return interpreter


def install_project(interpreter: Path, *what: str, groups: Sequence[str]) -> None:
    """Install the project and some dependency groups; `what` goes to pip: requirements, constraints."""
    options = [word for group in groups for word in ("--group", group)]
    run([interpreter, *PIP, "install", *options, *what])


def fetch_wheels(interpreter: Path) -> None:
    """Fetch the wheels that the wheel test installs offline: run-time dependencies and setuptools."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    shutil.rmtree(WHEELS, ignore_errors=True)
    options = ["--only-binary", ":all:", "--dest", str(WHEELS), *CONSTRAINTS]
    run([interpreter, *PIP, "download", *options, *wanted])


def install_verifiers() -> None:
    """Install the official npm verifiers into tests/node when node and npm are there."""
    if not (shutil.which("node") and shutil.which("npm")):
        print("node or npm is missing: tests that use the npm verifiers will not run")
        return
    verb = "ci" if (NODE / "package-lock.json").exists() else "install"
    run(["npm", verb, "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=NODE)


def digest() -> str:
    """Return a fingerprint of everything the environment is made from."""
    parts = [(ROOT / name).read_bytes() for name in SOURCES]
    return hashlib.sha256(b"\0".join([sys.version.encode(), *parts])).hexdigest()


def main() -> None:
    """Bring the environment up to date; does nothing when it is."""
    stamp = VENV / "webhooks-setup"
    if stamp.exists() and stamp.read_text() == digest():
        stamp.touch()
        return
    started = time.monotonic()
    print(f"setting up .venv with Python {sys.version.split()[0]} (a minute the first time)", flush=True)
    interpreter = make_venv(VENV)
    install_project(interpreter, "-r", "requirements.txt", groups=("test", "lint"))
    fetch_wheels(interpreter)
    install_verifiers()
    stamp.write_text(digest())
    print(f"set up in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
