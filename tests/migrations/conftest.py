"""Fixtures of the migrations' tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .databases import Database, made, reached


@pytest.fixture
def postgres(postgres_url: str, django_db_blocker: Any) -> Iterator[Database]:
    """An empty PostgreSQL database."""
    with django_db_blocker.unblock(), made(postgres_url) as url, reached(url) as database:
        yield database


@pytest.fixture
def sqlite(tmp_path: Path, django_db_blocker: Any) -> Iterator[Database]:
    """An empty SQLite database."""
    url, options = f"sqlite:///{tmp_path}/migrating.sqlite3", {"init_command": "PRAGMA synchronous=OFF"}
    with django_db_blocker.unblock(), reached(url, OPTIONS=options) as database:
        yield database
