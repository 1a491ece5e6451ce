"""How tests are shared out among processes: what takes seconds is begun early, what is dear is made once."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

LONG = ("e2e", "wheel", "long")
# Files whose tests run one after another in one process: they share a dear fixture, or wait for each other.
# xdist_group would say so beside the tests, but has no effect under pytest 9.2.
TOGETHER = ("tests/structure/test_wheel.py", "tests/structure/test_image.py", "tests/project/test_demo.py")
EARLY = 0.7  # part of the run in which the last of the long tests is begun


class Scheduler(LoadScopeScheduling):
    """One test at a time to whoever is free; the files that stay together come first."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if path in TOGETHER else nodeid

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what is done: it would be counted again after every further test."""
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduler | None:
    """Replace xdist's own scheduler of this name."""
    return Scheduler(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Collect without looking for garbage among thousands of tests, then or ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let long tests, which mostly wait, run beside others."""
    is_long = [any(item.get_closest_marker(name) for name in LONG) for item in items]
    if any(is_long):
        long = [item for item, yes in zip(items, is_long, strict=True) if yes]
        items[:] = spread(long, [item for item, yes in zip(items, is_long, strict=True) if not yes])


def spread(few: list[Any], many: list[Any]) -> list[Any]:
    """Return both in their order, the few at even distances in the first part of the many."""
    step = int(len(many) * EARLY / len(few))
    mixed: list[Any] = []
    for place, each in enumerate(few):
        mixed += [each, *many[place * step : (place + 1) * step]]
    return mixed + many[len(few) * step :]
