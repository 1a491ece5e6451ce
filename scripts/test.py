"""Runs the tests with real servers: `python -m scripts.test [pytest arguments]`.

Without arguments: everything on PostgreSQL, and beside it what must hold on SQLite too. With arguments: one
pytest run on PostgreSQL. What could not be run is named at the end and fails the run, unless it is
optional or ALLOW_MISSING=1.
"""

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from scripts import packages
from scripts.services import PACKAGES, Postgres, RabbitMQ, Redis, Server, missing

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS = 5  # pytest's exit code when it collected none
# How the reason of a skip begins when something is not installed; the optional fails nothing.
REQUIRED, OPTIONAL = "not run: ", "not run, optional: "
WORKERS = str(min(3, (os.cpu_count() or 1) + 1))
# Compiled code is kept whatever the shell says: hundreds of processes import the same.
UNWANTED = "PYTHONDONTWRITEBYTECODE"
# One hash seed for all test processes of a run, another for the next run.
HASHING = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", str(random.randrange(1, 2**32)))}
SQLITE_MARKS = "not pg and not e2e and not chaos and not wheel and not once"
SQLITE_TESTS = (
    "tests/actions",
    "tests/admin",
    "tests/api",
    "tests/conformance",
    "tests/management",
    "tests/models",
    "tests/ops",
    "tests/pipeline",
    "tests/portal",
    "tests/test_emit*.py",
    "tests/test_events*.py",
)
# What must be up before the SQLite part begins; it does not wait for RabbitMQ's seconds.
FOR_SQLITE = ("redis-server",)
SERVERS: dict[str, tuple[str, Callable[[], Server]]] = {
    "postgresql": ("TEST_DATABASE_URL", lambda: Postgres(durable=False)),
    "redis-server": ("TEST_REDIS_URL", Redis),
    "rabbitmq-server": ("TEST_AMQP_URL", RabbitMQ),
}


def absent(wanted: Sequence[str]) -> list[str]:
    """Install the missing servers among `wanted`; return the packages that stay missing."""
    lacking = [package for package in missing() if package in wanted]
    if lacking:
        packages.install(lacking)
    return [package for package in missing() if package in wanted]


@contextlib.contextmanager
def servers(names: Sequence[str]) -> Iterator[dict[str, str]]:
    """Start servers side by side; yield the variables that name them to the tests."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        chosen = [(SERVERS[name][0], SERVERS[name][1]()) for name in names]
        for _, server in chosen:
            stack.callback(server.close)
        list(pool.map(lambda pair: pair[1].start(), chosen))
        yield {variable: server.url for variable, server in chosen}


def pytest(arguments: Sequence[str], environment: Mapping[str, str], out: IO[bytes] | None = None) -> int:
    """Run pytest and return its exit code; `out` takes what it prints."""
    command = [sys.executable, "-m", "pytest", *arguments]
    variables = {**os.environ, **environment}
    variables.pop(UNWANTED, None)
    return subprocess.run(command, cwd=ROOT, env=variables, stdout=out, stderr=out, check=False).returncode


def sqlite_paths() -> list[str]:
    """Return the tests that must hold on SQLite as well."""
    return sorted(str(path.relative_to(ROOT)) for name in SQLITE_TESTS for path in ROOT.glob(name))


def run_all(names: Sequence[str], variables: Mapping[str, str]) -> list[int]:
    """Run everything on PostgreSQL and, in one process beside it, the SQLite part; return the exit codes.

    `names` are the servers that there are, `variables` what every test process is told.
    """
    first, others = [n for n in names if n in FOR_SQLITE], [n for n in names if n not in FOR_SQLITE]
    with tempfile.TemporaryFile() as out, ThreadPoolExecutor() as pool, servers(first) as urls:
        without = {**variables, **urls, "TEST_DATABASE_URL": ""}
        on_sqlite = pool.submit(pytest, ["-q", "-m", SQLITE_MARKS, *sqlite_paths()], without, out)
        with servers(others) as more:
            print("== all tests on PostgreSQL ==", flush=True)
            parallel = ["-q", "-n", WORKERS, "--dist", "loadgroup"]
            codes = [pytest(parallel, {**variables, **urls, **more}), on_sqlite.result()]
        print("== the tests that hold on SQLite too ==", flush=True)
        out.seek(0)
        print(out.read().decode(errors="replace"), flush=True)
    return codes


def run_some(arguments: Sequence[str], names: Sequence[str], variables: Mapping[str, str]) -> list[int]:
    """Run pytest once, on PostgreSQL; return its exit code."""
    with servers(names) as urls:
        return [pytest(arguments, {**variables, **urls})]


def report(not_run: Sequence[str], codes: Sequence[int]) -> int:
    """Print what was not run and return the exit code of the whole."""
    for reason in not_run:
        print(f"NOT RUN: {reason.removeprefix(REQUIRED).removeprefix(OPTIONAL)}", flush=True)
    if NO_TESTS in codes:
        print("NOT RUN: pytest found no test", flush=True)
    failed = next((code for code in codes if code), 0)
    required = [reason for reason in not_run if not reason.startswith(OPTIONAL)]
    if failed or not required or os.environ.get("ALLOW_MISSING") == "1":
        return failed
    print("failing because of what was not run; ALLOW_MISSING=1 accepts it", flush=True)
    return 1


def main(arguments: Sequence[str]) -> int:
    """Run the tests and return the exit code."""
    # One run of a few tests needs the database only; fixtures start the other servers on demand.
    wanted = list(SERVERS)[:1] if arguments else list(SERVERS)
    lacking = absent(wanted)
    present = [name for name in wanted if name not in lacking]
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "not-run"
        variables = {**HASHING, "WEBHOOKS_NOT_RUN": str(notes)}
        codes = run_some(arguments, present, variables) if arguments else run_all(present, variables)
        skipped = set(notes.read_text().splitlines()) if notes.exists() else set()
    without = [f"tests that need {PACKAGES[package]} (package {package})" for package in lacking]
    return report([*without, *sorted(skipped)], codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
