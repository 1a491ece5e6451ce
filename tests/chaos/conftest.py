"""The chaos suite uses the stage of the end-to-end tests; `make chaos` runs it, `make test` does not."""

from pathlib import Path

import pytest

from tests.e2e.conftest import make_stage, stage

__all__ = ["make_stage", "stage"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.chaos)
