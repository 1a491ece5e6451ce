"""Secrets that development makes once."""

import base64
import threading
from pathlib import Path

from project.kept import kept_secret


def test_a_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key"
    first = kept_secret(path)
    assert len(base64.b64decode(first)) == 32
    assert kept_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["key"]


def test_two_files_hold_two_secrets(tmp_path: Path) -> None:
    assert kept_secret(tmp_path / "a") != kept_secret(tmp_path / "b")


def test_whoever_starts_at_the_same_moment_agrees(tmp_path: Path) -> None:
    start, found = threading.Barrier(8), set()

    def make() -> None:
        start.wait(5)
        found.add(kept_secret(tmp_path / "key"))

    threads = [threading.Thread(target=make, daemon=True) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(5)
    assert found == {kept_secret(tmp_path / "key")}
