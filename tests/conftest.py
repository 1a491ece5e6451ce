"""Rules for every test: loopback only, no thread left behind, PostgreSQL tests only on PostgreSQL."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import network

pytest_plugins = ["tests.dead_rows", "tests.scheduling", "tests.servers", "tests.node_verifier"]
network.install()


# What a test has that reads or writes the test databases.
DATABASE = {"db", "transactional_db", "postgres_url", "live_server"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests without a database `once`; skip tests marked `pg` on SQLite."""
    for item in items:
        if not item.get_closest_marker("django_db") and not DATABASE & set(item.fixturenames):
            item.add_marker(pytest.mark.once)
    if os.environ.get("TEST_DATABASE_URL", "").startswith("postgres"):
        return
    skip = pytest.mark.skip(reason="needs PostgreSQL: python -m scripts.test PATH, or TEST_DATABASE_URL")
    for item in items:
        if item.get_closest_marker("pg"):
            item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell `scripts.test` what was skipped because something is not installed."""
    if notes := os.environ.get("WEBHOOKS_NOT_RUN"):
        skipped = terminalreporter.stats.get("skipped", [])
        reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in skipped}
        with Path(notes).open("a") as out:
            out.writelines(f"{reason}\n" for reason in reasons if reason.startswith("not run"))


@pytest.fixture(scope="session", autouse=True)
def celery_default_app() -> object:
    """Make the suite's Celery app the current one."""
    from tests.celeryapp import app

    return app


@pytest.fixture(autouse=True)
def loopback_only() -> Iterator[list[str]]:
    """Fail a test that tried to leave the machine; a test that means to clears the yielded list."""
    network.attempts.clear()
    yield network.attempts
    assert not network.attempts, f"the test tried to leave loopback: {network.attempts}"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail a test that leaves a non-daemon thread running."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 2
    while _new_threads(before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _new_threads(before), f"threads left: {_new_threads(before)}"


def _new_threads(before: set[threading.Thread]) -> list[str]:
    return [each.name for each in threading.enumerate() if each not in before and not each.daemon]
